"""Judges whether a domain of a stream, or a reader of it, is complete to a time.

A mark answers a time if its lower reaches the time, the dataset has read up to its cut, and the
required writers vouch there. The first such mark is the answer.

It keeps invariant 7 of docs/explain/theory.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from msgspec.structs import asdict, replace

from noted_time.progress import ReadOffsets
from noted_time.reading import (
    Coverage,
    Gaps,
    MarkHistory,
    Spells,
    check_time,
    find_answering_mark,
    find_required_seq,
    find_stated_end,
)
from noted_time.values import (
    LEAST_TIME,
    MIN_INT64,
    NAMES_PER_SENTENCE,
    AnotherLog,
    LateWriter,
    Mark,
    NotVouching,
    Rejected,
    VouchedBy,
    WriterStatus,
    suggest_ending,
)
from noted_time.verdict.completeness import (
    AnsweringMark,
    Completeness,
    Lack,
    LackKind,
    Requirement,
    VerdictStatus,
    describe_objections,
    find_remedy,
    find_status,
    list_unmet_writers,
)
from noted_time.verdict.words import (
    BEFORE_FIRST_MARK,
    NOT_SO_FAR,
    describe_open,
    describe_vouching,
    describe_waiting,
)

OTHER_DOMAIN = "the query's watermark is of the domain {0!r}: name it (--domain {0}, domain=)"
TIMES_ONLY = "its writers noted only times, and no positions: offsets have no time there"
MARKS_EXPIRED = "the marks of this time were deleted, so who vouched is not known"
LATE_NOT_KNOWN = f"{NOT_SO_FAR}: it is not known which rows are late"
NO_MARK = "there is no mark yet"
FROM_TIME_ALONE = (
    "`from_time` has no effect without `require_all` or `require_known`: add one, or leave it out"
)

TIMES_EXAMINED = 100
"""How many of the greatest times are tried until the requirements hold."""


class Latecomer(NamedTuple):
    """A writer that may have rows with times from `from_time` on, which marks may lack.

    Marks before `first_seq` do not count it.
    """

    writer: str
    from_time: int
    first_seq: int


class JudgedDomain(Protocol):
    """A domain of a stream, with its marks and writers."""

    @property
    def stream(self) -> str: ...
    @property
    def domain(self) -> str: ...
    @property
    def history(self) -> MarkHistory: ...
    @property
    def coverage(self) -> Coverage: ...
    @property
    def logs(self) -> Sequence[str]: ...
    @property
    def expected(self) -> Sequence[str]: ...
    @property
    def are_unix_ms(self) -> bool: ...

    @property
    def forgotten_seq(self) -> int:
        """The last mark when a member was last forgotten, or 0."""

    def find_writer_status(self, writer: str) -> tuple[Spells, WriterStatus]:
        """Return when marks count a writer, and its state."""

    def list_latecomers(self) -> Sequence[Latecomer]:
        """Return the writers that the first marks do not count, and that may have rows there."""

    def find_reached_seq(self, position: Mapping[int, int]) -> int:
        """Return the seq of the last mark that a position reaches, or 0."""

    def find_unknown_segments(self, position: Mapping[int, int]) -> Sequence[int]: ...

    def list_holding_back(self, limit: int) -> tuple[Sequence[tuple[str, int]], int]:
        """Return the first writers that hold back the watermark, and the number of all.

        Each has the moment (Unix ms) when it began to.
        """

    def suggest(self, writer: str) -> str:
        """Return what to do about a required writer that is not known."""


class Verdict(NamedTuple):
    """The lacks at a time, and the mark that has all rows below it, if any, but for these."""

    time: int | None
    mark: Mark | None
    lacks: Sequence[Lack]
    gaps: Gaps | None = None
    complete_to: int | None = None

    @property
    def status(self) -> VerdictStatus:
        return find_status(self.lacks)

    @property
    def awaits_mark(self) -> bool:
        """Whether the next marks may end the wait, and not only the reader."""
        kinds = {each.kind for each in self.lacks if each.status != "complete"}
        return self.status == "waiting" and not kinds & {"not_read", "unknown_partition"}


def judge(domain: JudgedDomain, asked: Requirement) -> Verdict:
    """Judge the requested time, or without one the greatest time that is complete."""
    check(domain, asked)
    top = _find_top(domain, asked)
    time = top if asked.to is None else asked.to
    if time is None:
        return Verdict(None, None, [*_list_unread(domain, asked, None), *_list_open(domain, asked)])
    verdict = judge_time(domain, asked, time)
    best: Verdict | None = verdict
    if verdict.time != top or verdict.status != "complete":
        best = None if top is None else _find_greatest(domain, asked, top)
    if asked.to is None and best is not None and verdict.status == "waiting":
        verdict = best
    return verdict._replace(complete_to=None if best is None else best.time)


def check(domain: JudgedDomain, asked: Requirement) -> None:
    """Raise `Rejected` for a question about another log or domain, or with options that clash.

    Raises `ImplausibleTime` for seconds in a stream of ms.
    """
    if asked.to is not None and domain.are_unix_ms:
        check_time(asked.to, domain.history.last_lower)
    if asked.require_all and asked.require_known:
        raise Rejected("`require_all` includes `require_known`: leave one out")
    if asked.from_time is not None and asked.to is not None and asked.from_time >= asked.to:
        raise Rejected(f"`from_time` {asked.from_time} is not before `to` {asked.to}")
    if asked.from_time is not None and not asked.has_no_missing:
        raise Rejected(FROM_TIME_ALONE)
    if asked.wait_ms and asked.to is None:
        raise Rejected("`wait_ms` has no effect without `to`: leave one out")
    read = asked.read
    if read is not None:
        AnotherLog.check(domain.stream, domain.logs, read.log)
        if read.domain not in {None, domain.domain}:
            raise Rejected(OTHER_DOMAIN.format(read.domain))


def judge_time(domain: JudgedDomain, asked: Requirement, time: int) -> Verdict:
    """Judge a time by the first mark that meets the requirements there."""
    history, coverage = domain.history, domain.coverage
    last = history.last
    is_before = coverage.begins_after(time)
    if last is None or (last.lower < time and not history.is_whole):
        return Verdict(time, None, [*_list_unread(domain, asked, time), *_list_open(domain, asked)])
    first = find_answering_mark(history, coverage, time)
    seq, unmet = _find_required_seq(domain, asked, first.seq, time)
    mark = history.mark(seq)
    lacks = [*(_describe_unmet(domain, each) for each in unmet), *_list_open(domain, asked)]
    has_all_rows = history.has_all_rows(seq)
    if is_before and not has_all_rows:
        lacks.append(_describe_first_mark(domain, asked))
    if not lacks:
        unread = _list_unread(domain, asked, time, mark)
        lacks = [*unread, *_list_expired(domain, asked, mark, time)]
    start = MIN_INT64 if asked.from_time is None else asked.from_time
    gaps = coverage.assess_mark(mark, start, time, has_all_rows=has_all_rows)
    if asked.has_no_missing:
        lacks += _list_unmet_rows(domain, asked, gaps, time)
    return Verdict(time, mark, lacks, gaps)


def _find_required_seq(
    domain: JudgedDomain, asked: Requirement, first: int, time: int
) -> tuple[int, list[NotVouching]]:
    """Return the first mark that meets the requirements, and the writers that never vouch.

    If no writer may be missing, a forgotten one is answered by marks after the last forgetting.
    """
    names, missing = [*_list_required(domain, asked)], None
    if asked.has_no_missing:
        first, missing = max(first, domain.forgotten_seq), domain.coverage.missing
        names += (
            each.writer
            for each in domain.list_latecomers()
            if each.first_seq > first and each.from_time < time
        )
    required = {name: domain.find_writer_status(name) for name in names}

    def owes_rows(writer: str) -> bool:
        """A first note may say that nothing is older, unless the writer's past is forgotten."""
        stated = find_stated_end(domain.find_writer_status(writer)[0])
        return stated is None or not domain.coverage.missing.known_from <= time <= stated

    last = domain.history.last_seq
    return find_required_seq(first, last, time, required, missing, owes_rows=owes_rows)


def _list_required(domain: JudgedDomain, asked: Requirement) -> Sequence[str]:
    return (*asked.require, *(domain.expected if asked.require_all else ()))


def _list_ends(domain: JudgedDomain, asked: Requirement) -> Iterator[int]:
    """Yield the times beyond which a writer that must vouch does not, or is missing."""
    for name in _list_required(domain, asked):
        yield from _list_spell_ends(domain, name)
    if not asked.has_no_missing:
        return
    for latecomer in domain.list_latecomers():
        yield latecomer.from_time
        yield from _list_spell_ends(domain, latecomer.writer)
    history = domain.history
    for name, seq in domain.coverage.missing.list_first_seqs():
        stated = find_stated_end(domain.find_writer_status(name)[0])
        if stated is not None:
            yield stated
        if history.first_seq < seq:
            yield history.mark(seq - 1).lower


def _list_spell_ends(domain: JudgedDomain, writer: str) -> Iterator[int]:
    spells, _ = domain.find_writer_status(writer)
    yield from (each.to_time for each in spells if each.to_time is not None)


def _list_limits(domain: JudgedDomain, asked: Requirement) -> Iterator[int]:
    """Yield times beyond which no mark so far meets the requirements."""
    if not asked.has_no_missing:
        return
    last_seq = domain.history.last_seq
    for latecomer in domain.list_latecomers():
        if latecomer.first_seq > last_seq:
            spells, _ = domain.find_writer_status(latecomer.writer)
            ends = [each.end for each in spells if each.from_seq <= last_seq]
            yield max(latecomer.from_time, *ends) if ends else latecomer.from_time
    if asked.from_time is not None:
        for report in domain.coverage.late_reports:
            if report.min_time is not None and report.max_time >= asked.from_time:
                yield report.min_time


def build_answer(
    domain: JudgedDomain, asked: Requirement, verdict: Verdict, vouched: VouchedBy | None, now: int
) -> Completeness:
    """Return the answer with its remarks and its sentence; `now` is in Unix ms."""
    time, mark, found = verdict.time, verdict.mark, verdict.gaps
    lacks, described = [*verdict.lacks], ""
    if time is not None and found is not None:
        missing, late = found.missing, found.late
        lacks += _list_remarks(domain, asked, found, {each.writer for each in lacks}, now)
        shown, is_sealed = asked.format(time), domain.history.is_whole
        by = ""
        if vouched is not None:
            unmet = list_unmet_writers(lacks)
            by = describe_vouching(vouched, is_sealed=is_sealed, named_elsewhere=unmet)
        if found.before_first_mark:
            described = (
                f"nobody vouches for {shown}, which is before the first mark of {domain.stream}"
                f"{late.describe()}"
            )
        elif verdict.status != "waiting":
            without = missing.describe(now) + late.describe()
            reader = f", read by {asked.read.by}" if asked.read and asked.read.by else ""
            described = f"{domain.stream} is complete to {shown}{reader}, {by}{without}"
    final = verdict._replace(lacks=lacks)
    answering = None
    if mark is not None and final.status == "complete":
        answering = AnsweringMark(**asdict(mark), logs=tuple(domain.logs))
    return Completeness(
        status=final.status,
        complete_to=verdict.complete_to,
        complete_to_shown=asked.show(verdict.complete_to),
        mark=answering,
        vouched=vouched,
        lacks=tuple(lacks),
        sentence=_describe(domain, asked, final, described),
        remedy=find_remedy(lacks),
        sealed=domain.history.is_whole,
        first_lower=domain.coverage.first_lower,
    )


def _find_top(domain: JudgedDomain, asked: Requirement) -> int | None:
    """Return the greatest time that the dataset has, rounded down, or `None`."""
    seq, history = _find_reached_seq(domain, asked), domain.history
    read, last = asked.read, history.last
    if last is None or seq < history.first_seq:
        return None
    if read is not None and read.position is not None and not last.cut.offsets:
        return None
    mark = history.mark(seq)
    at_most = mark.lower if read is None or read.at_most is None else read.at_most
    return asked.tiling.start_of(min(mark.lower, at_most))


def _find_greatest(domain: JudgedDomain, asked: Requirement, top: int) -> Verdict | None:
    """Return the verdict at the greatest time up to `top` that is complete as required."""
    for time in islice(_list_times(domain, asked, top), TIMES_EXAMINED):
        found = judge_time(domain, asked, time)
        if found.status == "complete":
            return found
    return None


def _list_times(domain: JudgedDomain, asked: Requirement, top: int) -> Iterator[int]:
    """Yield the greatest possible time and lower ones where a writer stops vouching, falling.

    A time is rounded down when it is needed, because windows may overlap in a zone at older times.
    """
    greatest = min(top, min(_list_limits(domain, asked), default=top))
    if greatest < LEAST_TIME:
        return
    time = asked.tiling.start_of(greatest)
    yield time
    for end in sorted({*_list_ends(domain, asked)}, reverse=True):
        if not LEAST_TIME <= end < time:
            continue
        start = asked.tiling.start_of(end)
        if start < time:
            time = start
            yield time


def _find_reached_seq(domain: JudgedDomain, asked: Requirement) -> int:
    read, history = asked.read, domain.history
    if read is None or not len(history):
        return history.last_seq
    if read.position is not None:
        return domain.find_reached_seq(read.position)
    last = history.last_lower
    if read.at_most is None or last is None or last < read.at_most:
        return history.last_seq
    return history.complete_to(read.at_most).seq


def _list_unread(
    domain: JudgedDomain, asked: Requirement, time: int | None, mark: Mark | None = None
) -> Iterator[Lack]:
    """Yield why no mark has the time, or why the dataset has not read up to it."""
    read, last = asked.read, domain.history.last
    if last is None:
        yield _wait_for_writers(domain, "no_mark", NO_MARK)
    elif time is not None and mark is None:
        why = f"its lower is {asked.format(last.lower)}"
        yield _wait_for_writers(domain, "time_not_reached", why)
    elif read is not None and read.position is not None and not last.cut.offsets:
        yield Lack(kind="times_only", status="incomplete", sentence=TIMES_ONLY)
    elif read is not None:
        yield from _list_unknown(domain, last, read)
        yield from _list_lags(domain, asked, read, time, mark)


def _list_unknown(domain: JudgedDomain, last: Mark, read: ReadOffsets) -> Iterator[Lack]:
    """Yield an unknown partition, unless the log's id shows that it is of the stream's log."""
    unknown = domain.find_unknown_segments(read.position or {}) if read.log is None else ()
    for partition in unknown[:1]:
        known = sorted(last.cut.offsets)[:10]
        why = (
            f"partition {partition} is unknown: stream {domain.stream!r} has {known}; correct the "
            "number, or leave it out"
        )
        yield _wait("unknown_partition", why)


def _list_open(domain: JudgedDomain, asked: Requirement) -> Iterator[Lack]:
    if asked.require_all and not domain.expected:
        sentence = describe_open(domain.stream)
        yield Lack(kind="open_stream", status="incomplete", sentence=sentence)


def _wait_for_writers(domain: JudgedDomain, kind: LackKind, sentence: str) -> Lack:
    """Return a lack with the first writer that is waited for, whose sentence names several."""
    waiting, number = domain.list_holding_back(NAMES_PER_SENTENCE)
    if not waiting:
        return _wait(kind, sentence)
    waits = describe_waiting([name for name, _ in waiting], number)
    writer, began_at = waiting[0]
    return replace(
        _wait(kind, f"{sentence}, and {waits}"),
        writer=writer,
        domain=domain.domain,
        began_at=began_at,
    )


def _list_lags(
    domain: JudgedDomain, asked: Requirement, read: ReadOffsets, time: int | None, mark: Mark | None
) -> Iterator[Lack]:
    seq, history = _find_reached_seq(domain, asked), domain.history
    if mark is not None and seq >= mark.seq:
        if read.at_most is not None and time is not None and read.at_most < time:
            yield _wait("not_read", f"it is complete to {asked.format(read.at_most)}")
        return
    is_none = seq < history.first_seq
    to = "no mark yet" if is_none else f"the mark of {asked.format(history.mark(seq).lower)}"
    what = "the claim reaches" if read.position is None else "the offsets reach"
    yield _wait("not_read", f"{what} {to}")


def _list_expired(
    domain: JudgedDomain, asked: Requirement, mark: Mark, time: int
) -> Iterator[Lack]:
    """Yield a lack if the dataset may only have an earlier mark with other writers."""
    read, is_first = asked.read, mark.seq == domain.history.first_seq > 1
    if read is None or read.position is not None or read.at_most is None:
        return
    if not (asked.names_writers and is_first and read.at_most < mark.lower):
        return
    is_about_known = not asked.require and not asked.require_all
    if is_about_known and _has_all_known(domain, mark, read.at_most, time):
        return
    yield Lack(kind="marks_expired", status="unknown", sentence=MARKS_EXPIRED)


def _has_all_known(domain: JudgedDomain, mark: Mark, at_most: int, time: int) -> bool:
    """Return whether the records show that a deleted mark has all rows of known writers.

    `mark` is the first kept one, and has them. The deleted one has a lower of at least `at_most`.
    A writer that joined meanwhile may be forgotten, and then nothing shows its rows.
    """
    missing = domain.coverage.missing
    if domain.forgotten_seq or at_most <= missing.known_from:
        return False
    members, joined_before = missing.find_between(at_most, mark.seq)
    latecomers = {
        each.writer
        for each in domain.list_latecomers()
        if each.first_seq > 1 and each.from_time < time
    }
    return not members and latecomers <= joined_before


def _wait(kind: LackKind, sentence: str) -> Lack:
    return Lack(kind=kind, status="waiting", sentence=sentence)


def _describe_unmet(domain: JudgedDomain, each: NotVouching) -> Lack:
    kind: LackKind = "missing" if each.reason in {"missing", "narrowed"} else "not_vouching"
    is_expected = each.reason == "unknown" and each.writer in domain.expected
    may_come = (each.may_come or is_expected) and not domain.history.is_whole
    status: VerdictStatus = "waiting" if may_come else "incomplete"
    sentence, remedy = f"{each.sentence} does not vouch", ""
    if is_expected:
        sentence = f"{each.writer} is expected, and has not joined"
    elif may_come:
        sentence = f"no mark has the rows of {each.sentence} yet"
    elif each.reason == "narrowed":
        remedy = suggest_ending(domain.stream, each.writer, domain.domain)
    elif each.reason == "unknown":
        kind, remedy = "unknown_writer", domain.suggest(each.writer)
    return Lack(
        kind=kind,
        status=status,
        sentence=sentence,
        writer=each.writer,
        domain=domain.domain,
        to_time=each.to_time,
        remedy=remedy,
    )


def _describe_first_mark(domain: JudgedDomain, asked: Requirement) -> Lack:
    """A greatest time below the first mark can still come, unlike a requested one."""
    status: VerdictStatus = "waiting" if asked.to is None else "incomplete"
    first = domain.coverage.first_lower or 0
    sentence = BEFORE_FIRST_MARK.format(asked.format(first))
    return Lack(kind="before_first_mark", status=status, sentence=sentence)


def _list_unmet_rows(
    domain: JudgedDomain, asked: Requirement, found: Gaps, time: int
) -> Iterator[Lack]:
    """Yield the late rows of a window, and the records that do not reach back to it.

    Late rows that may have any time are a remark, because they need not be in the window.
    """
    if not found.missing.is_known and not found.before_first_mark:
        sentence = f"which writers are missing is not known: {NOT_SO_FAR}"
        yield Lack(kind="ledger_too_short", status="unknown", sentence=sentence)
    if asked.from_time is None:
        return
    dated = domain.coverage.late_reports.find_dated(asked.from_time, time)
    for each in dated.writers:
        yield _describe_late(domain, each, "incomplete")
    if not found.late.is_known:
        yield Lack(kind="late", status="unknown", sentence=LATE_NOT_KNOWN)


def _list_remarks(
    domain: JudgedDomain, asked: Requirement, found: Gaps, known: Collection[str | None], now: int
) -> Iterator[Lack]:
    """Yield the missing writers and late rows that do not change the status."""
    for each in found.missing.writers:
        if each.writer not in known:
            yield Lack(
                kind="not_vouching" if each.joined_later else "missing",
                status="complete",
                sentence=each.describe(now),
                writer=each.writer,
                domain=domain.domain,
                began_at=each.began_at,
                to_time=each.last_time,
            )
    is_said = asked.has_no_missing or found.before_first_mark
    if not found.missing.is_known and not is_said:
        yield Lack(kind="ledger_too_short", status="complete", sentence=NOT_SO_FAR)
    for late in found.late.writers:
        if late.writer not in known:
            yield _describe_late(domain, late, "complete")
    if not found.late.is_known and not (asked.has_no_missing and asked.from_time is not None):
        yield Lack(kind="late", status="complete", sentence=LATE_NOT_KNOWN)


def _describe_late(domain: JudgedDomain, each: LateWriter, status: VerdictStatus) -> Lack:
    return Lack(
        kind="late",
        status=status,
        sentence=f"{each.writer} {'has' if each.rows else 'may have'} late rows",
        writer=each.writer,
        domain=domain.domain,
        from_time=each.min_time,
        to_time=each.max_time,
        rows=each.rows or None,
    )


def _describe(domain: JudgedDomain, asked: Requirement, verdict: Verdict, described: str) -> str:
    remarks = () if asked.read is None else asked.read.remarks
    sentences = describe_objections(verdict.lacks)
    if described:
        return "; ".join([described, *remarks, *sentences])
    why = "; ".join([*sentences, *remarks])
    to = "" if verdict.time is None else f" to {asked.format(verdict.time)}"
    return f"{domain.stream} is not known to be complete{to}: {why}"
