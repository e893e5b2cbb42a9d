"""A stream with its store, whose acts are committed one by one as a controller commits them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from controller.aggregation import operations, retention
from controller.aggregation.draft import Draft, Moment
from controller.aggregation.operations import ANONYMOUS_ORDER
from controller.aggregation.owned_streams import OwnedStreams
from controller.aggregation.stream import StreamState
from controller.aggregation.views.inspection import build_writer_row
from controller.aggregation.views.view import View
from controller.aggregation.views.vouching import Vouching
from controller.store.port import Store
from noted_time import Mark, NotedTimeError
from noted_time.reading import MissingWriters, Tiling, find_complete_windows
from noted_time.rules import SealRequest
from noted_time.values import Absence, Note, ScaleEvent, StreamSettings, WaitForWriters
from noted_time.verdict import Requirement, Verdict, judge

NAME = "orders"
LONG_MS = 10**6
EARLIEST = -1
FEW = 100


class KeptStream:
    """One stream in memory and in a store; `now` is each of its clocks in ms."""

    def __init__(self, store: Store, settings: StreamSettings) -> None:
        self.store = store
        self.streams = OwnedStreams()
        self.streams.clocks = {0: 0}
        self.now = 0
        changes = {name: getattr(settings, name) for name in settings.__struct_fields__}
        changes["mark_interval_ms"] = LONG_MS
        self._put(changes, new_id="id-1")

    @property
    def stream(self) -> StreamState:
        return self.streams.stream(NAME)

    @property
    def moment(self) -> Moment:
        return Moment(self.now, self.now, self.now)

    def commit(self, work: Callable[[Draft], object]) -> None:
        """Do the work and commit it. Work that is refused changes nothing."""
        draft = Draft(self.moment)
        try:
            work(draft)
        except NotedTimeError:
            return
        for _ in draft.finish():
            pass
        self.store.commit(draft.batch)
        for _ in self.streams.publish(draft.batch):
            pass

    def load_again(self) -> StreamState:
        """Return the stream as another controller reads it from the store."""
        (record,) = self.store.streams()
        loaded_stream = StreamState.load(record, self.store)
        loaded_stream.clock_ahead = 0
        return loaded_stream

    def note(self, writer: str, **fields: Any) -> None:  # noqa: ANN401 - fields of a note
        note = Note(writer, **fields)
        self.commit(lambda draft: self.stream.take_notes([note], draft, FEW))

    def wait(self, ms: int, *, expire: bool) -> None:
        self.now += ms
        if expire:
            self.commit(self.stream.exclude_silent_writers)

    def advance(self) -> None:
        """Append the next mark of each domain that has one, whenever the last mark was made."""
        self.stream._next_mark_at = dict.fromkeys(self.stream.histories, self.now)
        self.commit(self.stream.advance_due)
        while self.stream.is_naming:
            self.commit(self.stream.advance_due)

    def remove(self, writer: str, domain: str | None = None) -> None:
        def work(draft: Draft) -> None:
            operations.remove(self.stream, draft, ANONYMOUS_ORDER, writer, domain=domain)

        self.commit(work)

    def suspend_timeout(self, writer: str, ms: int | None) -> None:
        def work(draft: Draft) -> None:
            operations.suspend_timeout(self.stream, draft, ANONYMOUS_ORDER, writer, ms)

        self.commit(work)

    def reconfigure(self, **changes: Any) -> None:  # noqa: ANN401 - settings
        self._put(changes, new_id="")

    def _put(self, changes: Mapping[str, Any], new_id: str) -> None:
        order = ANONYMOUS_ORDER

        def work(draft: Draft) -> None:
            operations.put(self.streams, draft, order, NAME, changes, new_id=new_id, most_streams=1)

        self.commit(work)

    def scale(self, sealed: Mapping[int, int], created: Mapping[int, tuple[int, ...]]) -> None:
        event = ScaleEvent(sealed, created)
        self.commit(lambda draft: operations.scale(self.stream, draft, ANONYMOUS_ORDER, event))

    def seal(self) -> None:
        def work(draft: Draft) -> None:
            for _ in operations.seal(self.stream, draft, ANONYMOUS_ORDER, SealRequest()):
                pass

        self.commit(work)

    def forget(self) -> None:
        """Forget writers that departed before the writer retention."""
        self.commit(lambda draft: retention.forget_departed(self.stream, draft))

    def age(self) -> None:
        """Let all records in the ledger and all reports of late rows get too old.

        All rows of memberships have been written long before.
        """
        writers = [*self.stream.aggregator.writers()]
        self.commit(lambda draft: draft.touch(self.stream).update(writers))
        self.now += retention.RECORDS_KEPT_MS + 1
        self.commit(lambda draft: retention.forget_old_records(self.streams, draft))


def list_answers(stream: StreamState, moment: Moment) -> Iterator[tuple[str, object]]:
    """Yield the answers of a stream that no restart may change, each with its question.

    A restart may change the order of names and the moments of time-outs.
    """
    for domain in stream.settings.domains:
        view = View(stream, moment, domain)
        yield from _list_verdicts(view)
        yield from _list_windows(view)
    if stream.aggregator.sealed is None:
        yield "domains without a bound", stream.aggregator.unbounded
    stream.begin(Draft(moment))
    for writer in sorted(stream.aggregator.writers()):
        row = build_writer_row(View(stream, moment, stream.settings.domains[0]), writer)
        yield f"state of {writer}", (row.state, row.times, row.excluded, row.late_rows)
        for domain, spells in row.vouching.items():
            yield f"spells of {writer} in {domain}", spells
        for domain in stream.settings.domains:
            answer = stream.aggregator.answer(Note(writer, 0, domain=domain))
            yield f"answer to {writer} in {domain}", answer


def list_facts(stream: StreamState, moment: Moment) -> Iterator[tuple[str, object]]:
    """Yield the facts from which verdicts, windows and answers to notes follow, each with a name.

    A restart may change none of them. This takes a tenth of the time of `list_answers`.
    """
    for domain in stream.settings.domains:
        vouching = Vouching(View(stream, moment, domain))
        coverage = vouching.coverage
        missing = coverage.missing
        late = coverage.late_reports
        intervals = sorted(_list_intervals(missing), key=repr)
        yield f"missing writers of {domain}", (intervals, missing.known_from)
        late_from = late.known_from, late.seen_from_served_ms
        yield f"late rows of {domain}", (sorted(late, key=attrgetter("place")), late_from)
        newcomers = sorted(coverage.newcomers.writers, key=attrgetter("writer"))
        yield f"newcomers of {domain}", newcomers
        yield f"forgotten mark of {domain}", vouching.forgotten_seq
        yield f"expected writers of {domain}", vouching.expected
        yield f"latecomers of {domain}", sorted(vouching.list_latecomers())
        for name in stream.aggregator.writers():
            yield f"spells of {name} in {domain}", vouching.find_writer_status(name)
            answer = stream.aggregator.answer(Note(name, 0, domain=domain))
            yield f"answer to {name} in {domain}", answer


def list_next_marks(stream: StreamState, moment: Moment) -> Iterator[tuple[str, object]]:
    """Advance the stream as far as possible, and yield the marks without their cuts and uppers."""
    aggregator = stream.aggregator
    now = stream.served_ms(moment)
    for domain in stream.settings.domains:
        decision = aggregator.decide(domain, now)
        waiting = decision.waiting_for if isinstance(decision, WaitForWriters) else ()
        yield f"writers that {domain} waits for", sorted(writer.writer for writer in waiting)
        while (mark := aggregator.advance(domain, now=now, written_at=0)) is not None:
            roster = aggregator.domains[domain].roster
            absences = [
                (absence.writer, absence.reason, absence.from_time)
                for absence in roster.named.absences
            ]
            joined_writers = [(writer.writer, writer.reason) for writer in roster.named.joined]
            facts = (
                mark.lower,
                mark.excluded,
                absences,
                sorted(joined_writers),
                roster.named.returned_writers,
            )
            yield f"mark {mark.seq} of {domain}", facts


def list_requirements(names: list[str]) -> Iterator[Requirement]:
    for name in names:
        yield Requirement(require=(name,))
    yield Requirement(require_known=True)
    yield Requirement(require_all=True)
    yield Requirement(require_known=True, from_time=EARLIEST)


def _list_verdicts(view: View) -> Iterator[tuple[str, object]]:
    vouching = Vouching(view)
    names = sorted(view.stream.aggregator.writers())
    marks = view.history.after(0, FEW)
    for requirement in list_requirements(names):
        verdict_found = judge(vouching, requirement)
        yield f"greatest time of {view.domain} {_show(requirement)}", _describe(verdict_found)
        for time in _list_times(marks):
            verdict = judge(vouching, Requirement(**_fields(requirement) | {"to": time}))
            yield f"{view.domain} to {time} {_show(requirement)}", _describe(verdict)
    for mark in marks:
        *_, (vouching_answer,) = vouching.tally([(mark.seq, mark.lower)])
        other_writers = sorted(
            (writer.writer, writer.reason, writer.to_time)
            for writer in vouching_answer.not_vouching
        )
        yield (
            f"who vouches at {view.domain}'s mark {mark.seq}",
            (sorted(vouching_answer.names), other_writers, vouching_answer.names_known),
        )


def _list_times(marks: list[Mark]) -> list[int]:
    times = set()
    for mark in marks:
        times.add(max(0, mark.lower))
        times.add(max(0, mark.lower - 1))
    return sorted(times)


def _list_windows(view: View) -> Iterator[tuple[str, object]]:
    coverage = view.stream.coverage(view.domain)
    windows = find_complete_windows(
        view.history, Tiling(1), after=EARLIEST, limit=FEW, coverage=coverage
    )
    for window in windows:
        missing = sorted((writer.writer, writer.reason) for writer in window.missing_writers)
        late = sorted((writer.writer, writer.rows) for writer in window.late_writers)
        are_known = window.missing_is_known, window.late_is_known
        yield f"{view.domain}'s window {window.start}", (missing, late, are_known)


def _describe(verdict: Verdict) -> object:
    """Return a verdict. Its waits name one of several writers, which `list_next_marks` compares."""
    lacks = []
    for lack in verdict.lacks:
        names_all = lack.kind not in ("no_mark", "time_not_reached")
        lacks.append((lack.status, lack.kind, lack.writer if names_all and lack.writer else ""))
    lacks.sort()
    return verdict.time, verdict.mark and verdict.mark.seq, verdict.complete_to, lacks


def _show(requirement: Requirement) -> str:
    return ", ".join(f"{name}={value}" for name, value in _fields(requirement).items())


def _fields(requirement: Requirement) -> dict[str, Any]:
    named_fields = {
        name: getattr(requirement, name) for name in ("require", "require_all", "require_known")
    }
    return {k: v for k, v in named_fields.items() if v} | {"from_time": requirement.from_time}


def _list_intervals(missing: MissingWriters) -> Iterator[tuple[Absence, int, int, int, int]]:
    table = missing._table
    for row in (*missing._open.values(), *missing._ended):
        times = table.starts[row], table.ends[row]
        yield table.build_absence(row), *times, table.first_seqs[row], table.last_seqs[row]
