"""Which writers a caller requires, and why an answer that is complete is not what it requires."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from noted_time.client import Question
from noted_time.values import UnknownWriter
from reader_client.asking.answers import CutRead
from reader_client.asking.questions import Json, about_writer

NOT_SO_FAR = "the ledger does not reach back so far"


def objections(
    stream: str, cut: CutRead, required: Sequence[str], *, require_all: bool
) -> Generator[Question, Json, list[str]]:
    """Return why a cut is not what was required, empty if it is.

    A required writer that nobody knows is an objection, too. Asks about each required writer.
    """
    found = []
    missing = cut.missing
    named = {each.writer for each in missing.writers}
    for writer in required:
        try:
            row = yield about_writer(stream, writer)
        except UnknownWriter:
            found.append(f"{writer} is {'missing' if writer in named else 'unknown'}")
            continue
        # not all that are missing are named: of the others, what is so now is the best known
        is_unnamed = missing.count > len(named) and row["excluded"] is not None
        if writer in named or is_unnamed:
            found.append(f"{writer} is missing")
    if require_all and missing.count:
        found.append(f"writers that are missing: {missing.count}")
    if (required or require_all) and not missing.is_known:
        before = "it is before the first mark" if cut.before_first_mark else NOT_SO_FAR
        found.append(f"{before}: it is not known which writers are missing")
    return found
