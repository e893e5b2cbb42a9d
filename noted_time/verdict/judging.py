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
    """The verdict on one time: the first mark that answers it, and the lacks.

    `complete_to` is the greatest complete time that was found, `None` if none was.
    """

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
        kinds = {lack.kind for lack in self.lacks if lack.status != "complete"}
        return self.status == "waiting" and not kinds & {"not_read", "unknown_partition"}


def judge(domain: JudgedDomain, requirement: Requirement) -> Verdict:
    """Judge the requested time, or without one the greatest time that is complete.

    Without a complete time, it judges the greatest time that the dataset has.
    """
    check(domain, requirement)
    latest_time = _find_latest_time(domain, requirement)
    time = latest_time if requirement.to is None else requirement.to
    if time is None:
        return Verdict(None, None, _list_no_mark_lacks(domain, requirement, None))
    verdict = judge_time(domain, requirement, time)
    if verdict.time == latest_time and verdict.status == "complete":
        return verdict._replace(complete_to=time)
    complete_verdict = None
    if latest_time is not None:
        complete_verdict = _find_greatest(domain, requirement, latest_time)
    if complete_verdict is None:
        return verdict
    if requirement.to is None and verdict.status == "waiting":
        return complete_verdict._replace(complete_to=complete_verdict.time)
    return verdict._replace(complete_to=complete_verdict.time)


def check(domain: JudgedDomain, requirement: Requirement) -> None:
    """Raise `Rejected` for a question about another log or domain, or with options that clash.

    Raises `ImplausibleTime` for seconds in a stream of ms.
    """
    if requirement.to is not None and domain.are_unix_ms:
        check_time(requirement.to, domain.history.last_lower)
    if requirement.require_all and requirement.require_known:
        raise Rejected("`require_all` includes `require_known`: leave one out")
    if (
        requirement.from_time is not None
        and requirement.to is not None
        and requirement.from_time >= requirement.to
    ):
        raise Rejected(f"`from_time` {requirement.from_time} is not before `to` {requirement.to}")
    if requirement.from_time is not None and not requirement.has_no_missing:
        raise Rejected(FROM_TIME_ALONE)
    if requirement.wait_ms and requirement.to is None:
        raise Rejected("`wait_ms` has no effect without `to`: leave one out")
    read_offsets = requirement.read
    if read_offsets is not None:
        AnotherLog.check(domain.stream, domain.logs, read_offsets.log)
        if read_offsets.domain not in {None, domain.domain}:
            raise Rejected(OTHER_DOMAIN.format(read_offsets.domain))


def judge_time(domain: JudgedDomain, requirement: Requirement, time: int) -> Verdict:
    """Judge a time by the first mark that meets the requirements there.

    The verdict has no mark if none is complete to the time yet. Rows that the dataset has not read
    are a lack only if the stream itself lacks nothing.
    """
    history = domain.history
    coverage = domain.coverage
    if history.last is None or (history.last.lower < time and not history.is_whole):
        return Verdict(time, None, _list_no_mark_lacks(domain, requirement, time))
    first_mark = find_answering_mark(history, coverage, time)
    seq, unmet_writers = _find_required_seq(domain, requirement, first_mark.seq, time)
    mark = history.mark(seq)
    lacks = [_describe_unmet(domain, unmet_writer) for unmet_writer in unmet_writers]
    lacks += _list_open(domain, requirement)
    has_all_rows = history.has_all_rows(seq)
    if coverage.begins_after(time) and not has_all_rows:
        lacks.append(_describe_first_mark(domain, requirement))
    if not lacks:
        lacks += _list_unread(domain, requirement, time, mark)
        lacks += _list_expired(domain, requirement, mark, time)
    start = MIN_INT64 if requirement.from_time is None else requirement.from_time
    gaps = coverage.assess_mark(mark, start, time, has_all_rows=has_all_rows)
    if requirement.has_no_missing:
        lacks += _list_unmet_rows(domain, requirement, gaps, time)
    return Verdict(time, mark, lacks, gaps)


def _list_no_mark_lacks(
    domain: JudgedDomain, requirement: Requirement, time: int | None
) -> list[Lack]:
    return [*_list_unread(domain, requirement, time), *_list_open(domain, requirement)]


def _find_required_seq(
    domain: JudgedDomain, requirement: Requirement, first_seq: int, time: int
) -> tuple[int, list[NotVouching]]:
    """Return the first mark that meets the requirements, and the writers that never vouch.

    If no writer may be missing, a forgotten one is answered by marks after the last forgetting.
    """
    writers = [*_list_required(domain, requirement)]
    missing_writers = None
    if requirement.has_no_missing:
        first_seq = max(first_seq, domain.forgotten_seq)
        missing_writers = domain.coverage.missing
        writers += (
            latecomer.writer
            for latecomer in domain.list_latecomers()
            if latecomer.first_seq > first_seq and latecomer.from_time < time
        )
    required_statuses = {writer: domain.find_writer_status(writer) for writer in writers}

    def owes_rows(writer: str) -> bool:
        """A first note may say that nothing is older, unless the writer's past is forgotten."""
        stated_end = find_stated_end(domain.find_writer_status(writer)[0])
        return stated_end is None or not domain.coverage.missing.known_from <= time <= stated_end

    last_seq = domain.history.last_seq
    return find_required_seq(
        first_seq, last_seq, time, required_statuses, missing_writers, owes_rows=owes_rows
    )


def _list_required(domain: JudgedDomain, requirement: Requirement) -> Sequence[str]:
    if requirement.require_all:
        return (*requirement.require, *domain.expected)
    return requirement.require


def _list_ends(domain: JudgedDomain, requirement: Requirement) -> Iterator[int]:
    """Yield the times beyond which a writer that must vouch does not, or is missing."""
    for writer in _list_required(domain, requirement):
        yield from _list_spell_ends(domain, writer)
    if not requirement.has_no_missing:
        return
    for latecomer in domain.list_latecomers():
        yield latecomer.from_time
        yield from _list_spell_ends(domain, latecomer.writer)
    history = domain.history
    for writer, seq in domain.coverage.missing.list_first_seqs():
        stated_end = find_stated_end(domain.find_writer_status(writer)[0])
        if stated_end is not None:
            yield stated_end
        if history.first_seq < seq:
            yield history.mark(seq - 1).lower


def _list_spell_ends(domain: JudgedDomain, writer: str) -> Iterator[int]:
    spells, _ = domain.find_writer_status(writer)
    for spell in spells:
        if spell.to_time is not None:
            yield spell.to_time


def _list_limits(domain: JudgedDomain, requirement: Requirement) -> Iterator[int]:
    """Yield times beyond which no mark so far meets the requirements."""
    if not requirement.has_no_missing:
        return
    last_seq = domain.history.last_seq
    for latecomer in domain.list_latecomers():
        if latecomer.first_seq > last_seq:
            spells, _ = domain.find_writer_status(latecomer.writer)
            ends = [spell.end for spell in spells if spell.from_seq <= last_seq]
            yield max((latecomer.from_time, *ends))
    if requirement.from_time is not None:
        for report in domain.coverage.late_reports:
            if report.min_time is not None and report.max_time >= requirement.from_time:
                yield report.min_time


def build_answer(
    domain: JudgedDomain,
    requirement: Requirement,
    verdict: Verdict,
    vouched: VouchedBy | None,
    now: int,
) -> Completeness:
    """Return the answer with its remarks and its sentence; `now` is in Unix ms."""
    lacks = [*verdict.lacks]
    if verdict.time is not None and verdict.gaps is not None:
        known_writers = {lack.writer for lack in lacks}
        lacks += _list_remarks(domain, requirement, verdict.gaps, known_writers, now)
    whole_verdict = verdict._replace(lacks=lacks)
    description = _describe_completeness(domain, requirement, whole_verdict, vouched, now)
    answering_mark = None
    if verdict.mark is not None and whole_verdict.status == "complete":
        answering_mark = AnsweringMark(**asdict(verdict.mark), logs=tuple(domain.logs))
    return Completeness(
        status=whole_verdict.status,
        complete_to=verdict.complete_to,
        complete_to_shown=requirement.show(verdict.complete_to),
        mark=answering_mark,
        vouched=vouched,
        lacks=tuple(lacks),
        sentence=_describe(domain, requirement, whole_verdict, description),
        remedy=find_remedy(lacks),
        sealed=domain.history.is_whole,
        first_lower=domain.coverage.first_lower,
    )


def _describe_completeness(
    domain: JudgedDomain,
    requirement: Requirement,
    verdict: Verdict,
    vouched: VouchedBy | None,
    now: int,
) -> str:
    """Return how far the stream is complete, and by whom; `""` while it waits."""
    gaps = verdict.gaps
    if verdict.time is None or gaps is None:
        return ""
    shown_time = requirement.format(verdict.time)
    late_clause = gaps.late.describe()
    if gaps.before_first_mark:
        return (
            f"nobody vouches for {shown_time}, which is before the first mark of "
            f"{domain.stream}{late_clause}"
        )
    if verdict.status == "waiting":
        return ""
    reader_clause = ""
    if requirement.read and requirement.read.by:
        reader_clause = f", read by {requirement.read.by}"
    vouching_clause = ""
    if vouched is not None:
        vouching_clause = describe_vouching(
            vouched,
            is_sealed=domain.history.is_whole,
            named_elsewhere=list_unmet_writers(verdict.lacks),
        )
    return (
        f"{domain.stream} is complete to {shown_time}{reader_clause}, "
        f"{vouching_clause}{gaps.missing.describe(now)}{late_clause}"
    )


def _find_latest_time(domain: JudgedDomain, requirement: Requirement) -> int | None:
    """Return the greatest time that the dataset has, rounded down, or `None`."""
    seq = _find_reached_seq(domain, requirement)
    history = domain.history
    read_offsets = requirement.read
    last_mark = history.last
    if last_mark is None or seq < history.first_seq:
        return None
    if read_offsets is not None and read_offsets.position is not None and not last_mark.cut.offsets:
        return None
    mark = history.mark(seq)
    if read_offsets is None or read_offsets.at_most is None:
        at_most = mark.lower
    else:
        at_most = read_offsets.at_most
    return requirement.tiling.start_of(min(mark.lower, at_most))


def _find_greatest(
    domain: JudgedDomain, requirement: Requirement, latest_time: int
) -> Verdict | None:
    """Return the verdict at the greatest time up to `latest_time` that is complete as required."""
    for time in islice(_list_times(domain, requirement, latest_time), TIMES_EXAMINED):
        verdict = judge_time(domain, requirement, time)
        if verdict.status == "complete":
            return verdict
    return None


def _list_times(domain: JudgedDomain, requirement: Requirement, latest_time: int) -> Iterator[int]:
    """Yield the greatest possible time and lower ones where a writer stops vouching, falling.

    A time is rounded down when it is needed, because windows may overlap in a zone at older times.
    """
    greatest = min(latest_time, min(_list_limits(domain, requirement), default=latest_time))
    if greatest < LEAST_TIME:
        return
    time = requirement.tiling.start_of(greatest)
    yield time
    for end in sorted({*_list_ends(domain, requirement)}, reverse=True):
        if not LEAST_TIME <= end < time:
            continue
        start = requirement.tiling.start_of(end)
        if start < time:
            time = start
            yield time


def _find_reached_seq(domain: JudgedDomain, requirement: Requirement) -> int:
    read_offsets = requirement.read
    history = domain.history
    if read_offsets is None or not len(history):
        return history.last_seq
    if read_offsets.position is not None:
        return domain.find_reached_seq(read_offsets.position)
    last_lower = history.last_lower
    if read_offsets.at_most is None or last_lower is None or last_lower < read_offsets.at_most:
        return history.last_seq
    return history.complete_to(read_offsets.at_most).seq


def _list_unread(
    domain: JudgedDomain, requirement: Requirement, time: int | None, mark: Mark | None = None
) -> Iterator[Lack]:
    """Yield why no mark has the time, or why the dataset has not read up to it."""
    read_offsets = requirement.read
    last_mark = domain.history.last
    if last_mark is None:
        yield _wait_for_writers(domain, "no_mark", NO_MARK)
    elif time is not None and mark is None:
        reason = f"its lower is {requirement.format(last_mark.lower)}"
        yield _wait_for_writers(domain, "time_not_reached", reason)
    elif (
        read_offsets is not None and read_offsets.position is not None and not last_mark.cut.offsets
    ):
        yield Lack(kind="times_only", status="incomplete", sentence=TIMES_ONLY)
    elif read_offsets is not None:
        yield from _list_unknown(domain, last_mark, read_offsets)
        yield from _list_lags(domain, requirement, read_offsets, time, mark)


def _list_unknown(
    domain: JudgedDomain, last_mark: Mark, read_offsets: ReadOffsets
) -> Iterator[Lack]:
    """Yield an unknown partition, unless the log's id shows that it is of the stream's log."""
    if read_offsets.log is not None:
        return
    unknown_partitions = domain.find_unknown_segments(read_offsets.position or {})
    for partition in unknown_partitions[:1]:
        known_partitions = sorted(last_mark.cut.offsets)[:10]
        reason = (
            f"partition {partition} is unknown: stream {domain.stream!r} has {known_partitions}; "
            "correct the number, or leave it out"
        )
        yield _wait("unknown_partition", reason)


def _list_open(domain: JudgedDomain, requirement: Requirement) -> Iterator[Lack]:
    if requirement.require_all and not domain.expected:
        sentence = describe_open(domain.stream)
        yield Lack(kind="open_stream", status="incomplete", sentence=sentence)


def _wait_for_writers(domain: JudgedDomain, kind: LackKind, sentence: str) -> Lack:
    """Return a lack with the first writer that is waited for, whose sentence names several."""
    holding_back, count = domain.list_holding_back(NAMES_PER_SENTENCE)
    if not holding_back:
        return _wait(kind, sentence)
    waiting_clause = describe_waiting([name for name, _ in holding_back], count)
    writer, began_at = holding_back[0]
    return replace(
        _wait(kind, f"{sentence}, and {waiting_clause}"),
        writer=writer,
        domain=domain.domain,
        began_at=began_at,
    )


def _list_lags(
    domain: JudgedDomain,
    requirement: Requirement,
    read_offsets: ReadOffsets,
    time: int | None,
    mark: Mark | None,
) -> Iterator[Lack]:
    """Yield the lack if the dataset has not read to the `mark` that answers a time."""
    reached_seq = _find_reached_seq(domain, requirement)
    history = domain.history
    if mark is not None and reached_seq >= mark.seq:
        at_most = read_offsets.at_most
        if at_most is not None and time is not None and at_most < time:
            yield _wait("not_read", f"it is complete to {requirement.format(at_most)}")
        return
    reached_place = "no mark yet"
    if reached_seq >= history.first_seq:
        reached_place = f"the mark of {requirement.format(history.mark(reached_seq).lower)}"
    subject = "the offsets reach"
    if read_offsets.position is None:
        subject = "the claim reaches"
    yield _wait("not_read", f"{subject} {reached_place}")


def _list_expired(
    domain: JudgedDomain, requirement: Requirement, mark: Mark, time: int
) -> Iterator[Lack]:
    """Yield a lack if the dataset may only have an earlier mark with other writers."""
    read_offsets = requirement.read
    is_first = mark.seq == domain.history.first_seq > 1
    if read_offsets is None or read_offsets.position is not None or read_offsets.at_most is None:
        return
    if not (requirement.names_writers and is_first and read_offsets.at_most < mark.lower):
        return
    is_about_known = not requirement.require and not requirement.require_all
    if is_about_known and _has_all_known(domain, mark, read_offsets.at_most, time):
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
        latecomer.writer
        for latecomer in domain.list_latecomers()
        if latecomer.first_seq > 1 and latecomer.from_time < time
    }
    return not members and latecomers <= joined_before


def _wait(kind: LackKind, sentence: str) -> Lack:
    return Lack(kind=kind, status="waiting", sentence=sentence)


def _describe_unmet(domain: JudgedDomain, unmet_writer: NotVouching) -> Lack:
    kind: LackKind = "not_vouching"
    if unmet_writer.reason in {"missing", "narrowed"}:
        kind = "missing"
    is_expected = unmet_writer.reason == "unknown" and unmet_writer.writer in domain.expected
    may_come = (unmet_writer.may_come or is_expected) and not domain.history.is_whole
    status: VerdictStatus = "waiting" if may_come else "incomplete"
    sentence = f"{unmet_writer.sentence} does not vouch"
    remedy = ""
    if is_expected:
        sentence = f"{unmet_writer.writer} is expected, and has not joined"
    elif may_come:
        sentence = f"no mark has the rows of {unmet_writer.sentence} yet"
    elif unmet_writer.reason == "narrowed":
        remedy = suggest_ending(domain.stream, unmet_writer.writer, domain.domain)
    elif unmet_writer.reason == "unknown":
        kind = "unknown_writer"
        remedy = domain.suggest(unmet_writer.writer)
    return Lack(
        kind=kind,
        status=status,
        sentence=sentence,
        writer=unmet_writer.writer,
        domain=domain.domain,
        to_time=unmet_writer.to_time,
        remedy=remedy,
    )


def _describe_first_mark(domain: JudgedDomain, requirement: Requirement) -> Lack:
    """A greatest time below the first mark can still come, unlike a requested one."""
    status: VerdictStatus = "waiting" if requirement.to is None else "incomplete"
    first_lower = domain.coverage.first_lower or 0
    sentence = BEFORE_FIRST_MARK.format(requirement.format(first_lower))
    return Lack(kind="before_first_mark", status=status, sentence=sentence)


def _list_unmet_rows(
    domain: JudgedDomain, requirement: Requirement, gaps: Gaps, time: int
) -> Iterator[Lack]:
    """Yield the late rows of a window, and the records that do not reach back to it.

    Late rows that may have any time are a remark, because they need not be in the window.
    """
    if not gaps.missing.is_known and not gaps.before_first_mark:
        sentence = f"which writers are missing is not known: {NOT_SO_FAR}"
        yield Lack(kind="ledger_too_short", status="unknown", sentence=sentence)
    if requirement.from_time is None:
        return
    dated_rows = domain.coverage.late_reports.find_dated(requirement.from_time, time)
    for late_writer in dated_rows.writers:
        yield _describe_late(domain, late_writer, "incomplete")
    if not gaps.late.is_known:
        yield Lack(kind="late", status="unknown", sentence=LATE_NOT_KNOWN)


def _list_remarks(
    domain: JudgedDomain,
    requirement: Requirement,
    gaps: Gaps,
    known_writers: Collection[str | None],
    now: int,
) -> Iterator[Lack]:
    """Yield the missing writers and late rows that do not change the status."""
    for missing_writer in gaps.missing.writers:
        if missing_writer.writer not in known_writers:
            yield Lack(
                kind="not_vouching" if missing_writer.joined_later else "missing",
                status="complete",
                sentence=missing_writer.describe(now),
                writer=missing_writer.writer,
                domain=domain.domain,
                began_at=missing_writer.began_at,
                to_time=missing_writer.last_time,
            )
    is_said = requirement.has_no_missing or gaps.before_first_mark
    if not gaps.missing.is_known and not is_said:
        yield Lack(kind="ledger_too_short", status="complete", sentence=NOT_SO_FAR)
    for late_writer in gaps.late.writers:
        if late_writer.writer not in known_writers:
            yield _describe_late(domain, late_writer, "complete")
    if not gaps.late.is_known and not (
        requirement.has_no_missing and requirement.from_time is not None
    ):
        yield Lack(kind="late", status="complete", sentence=LATE_NOT_KNOWN)


def _describe_late(domain: JudgedDomain, late_writer: LateWriter, status: VerdictStatus) -> Lack:
    return Lack(
        kind="late",
        status=status,
        sentence=f"{late_writer.writer} {'has' if late_writer.rows else 'may have'} late rows",
        writer=late_writer.writer,
        domain=domain.domain,
        from_time=late_writer.min_time,
        to_time=late_writer.max_time,
        rows=late_writer.rows or None,
    )


def _describe(
    domain: JudgedDomain, requirement: Requirement, verdict: Verdict, description: str
) -> str:
    """Return the sentence of an answer. The `description` is empty while it waits."""
    remarks: tuple[str, ...] = ()
    if requirement.read is not None:
        remarks = requirement.read.remarks
    sentences = describe_objections(verdict.lacks)
    if description:
        return "; ".join([description, *remarks, *sentences])
    reasons = "; ".join([*sentences, *remarks])
    goal = ""
    if verdict.time is not None:
        goal = f" to {requirement.format(verdict.time)}"
    return f"{domain.stream} is not known to be complete{goal}: {reasons}"
