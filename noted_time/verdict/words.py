"""The words of the lacks of a dataset."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

from noted_time.installation import name_program
from noted_time.values import VouchedBy, format_duration, format_time, join_names, suggest_names

BEFORE_FIRST_MARK = (
    "writers vouch from the first mark on: ask for {} or a later time. In a new stream, let each "
    "writer first note the time at which its data begin"
)

NOT_KNOWN = "correct the name, or let it note first: `{} writers {}` lists the known writers"

FORGOTTEN = (
    "{stream} forgets a writer that finished or was excluded more than its --writer-retention ago "
    "({retention}): let the writer note again, or expect only the others. With a longer "
    "--writer-retention the stream keeps it"
)

EXPECTS_NO_WRITERS = "expects no writers, so the missing ones are not known"

NOT_SO_FAR = "the ledger does not reach back so far"

SIMILARITY_CUTOFF = 0.75


def describe_first_mark(first_lower: int | None, time: int | None) -> str:
    """Return a sentence if `time` (Unix ms) is before the first mark of a stream, or `""`."""
    if time is None or first_lower is None or time >= first_lower:
        return ""
    return BEFORE_FIRST_MARK.format(format_time(first_lower))


def describe_open(stream: str) -> str:
    """Return why not all writers can be required, with the options that require others."""
    return (
        f"{stream} {EXPECTS_NO_WRITERS}: {suggest_expecting(stream)}, or name them "
        "(`--require …`), or accept all that ever joined (`--require-known`)"
    )


def suggest_expecting(stream: str) -> str:
    """Return what to do about a stream that expects no writers."""
    return f"declare writers (`{name_program()} stream set {stream} --expected-writer …`)"


def describe_vouching(
    vouched: VouchedBy, *, is_sealed: bool, named_elsewhere: Collection[str] = ()
) -> str:
    """Return who vouches for a time. No row comes after a seal, even if no writer vouches.

    >>> describe_vouching(VouchedBy(0), is_sealed=True)
    'because it is sealed'
    """
    if is_sealed and not (vouched.count or vouched.expected):
        return "because it is sealed"
    return vouched.describe(named_elsewhere)


def describe_waiting(names: Sequence[str], number: int) -> str:
    """Return a clause with the writers that a watermark waits for, or `""` without names.

    >>> describe_waiting(["oslo", "lima"], 2)
    'it waits for oslo and lima'
    """
    if not names:
        return ""
    return f"it waits for {join_names(names, number)}"


def suggest_writer(
    stream: str, writer: str, known_writers: Iterable[str], forgets_after_ms: int | None
) -> str:
    """Return what to do about a required writer that a stream does not know.

    `forgets_after_ms` is given if the stream has forgotten writers, of which it may be one.

    >>> suggest_writer("shops", "pariss", ["paris", "lima"], None)
    "did you mean 'paris'?"
    """
    similar_names = get_close_matches(
        writer, dict.fromkeys(known_writers), cutoff=SIMILARITY_CUTOFF
    )
    remedy = suggest_names(similar_names)
    if not similar_names:
        remedy = NOT_KNOWN.format(name_program(), stream)
    if forgets_after_ms is None:
        return remedy
    forgotten_hint = FORGOTTEN.format(stream=stream, retention=format_duration(forgets_after_ms))
    if similar_names:
        return f"{remedy} {forgotten_hint}"
    return f"{remedy}. {forgotten_hint}"
