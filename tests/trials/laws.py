"""The promises of this product. Each law is stated once, and all trials check it.

A law is a function over facts (`facts.py`): its docstring is the promise, its parameters are the
facts, and it yields what breaks the promise, or returns whether it holds. The first part of its
number is the invariant of `docs/explain/theory.md` that it shows. `writer_laws.py` has the laws of
the protocol for writers, with numbers from 9.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from noted_time.client import position_from_wire
from noted_time.rules import MemberRecord
from noted_time.values import reaches
from tests.trials.facts import (
    Answer,
    Claim,
    Commit,
    Json,
    Look,
    Position,
    Row,
    Scaling,
    TableRow,
    WindowSeen,
    complete,
)
from tests.trials.law import law, observe

THEORY = "docs/explain/theory.md"
CONCEPTS = "docs/explain/concepts.md"
FOLLOWING = "docs/reference/following.md"
PROTOCOL = "docs/reference/protocol.md"
CHAOS = "docs/explain/chaos.md"
DOMAIN = "default"
NEVER = 2**63

# 1. A mark is sound


class Unsound(NamedTuple):
    """A row that a cut leaves out, with the least lower above its time and the least such cut."""

    record: Any
    lower: int
    cut: int


@law("1.1", THEORY)
def marks_are_sound(marks: Iterable[Json], rows: Sequence[Row]) -> Iterator[Unsound]:
    """Each row with a time below a mark's lower lies below the mark's cut.

    A segment that a cut does not name has no row below it.

    >>> mark = {"lower": 100, "cut": {"0": 2}}
    >>> below, beyond = (0, 1, 99), (0, 2, 99)
    >>> list(marks_are_sound([mark], [below, beyond, (0, 3, 100)]))
    [Unsound(record=(0, 2, 99), lower=100, cut=2)]
    """
    ordered_marks = sorted(marks, key=itemgetter("lower"))
    lowers = [mark["lower"] for mark in ordered_marks]
    cuts = {segment: _find_least_cuts(ordered_marks, str(segment)) for segment, *_ in rows}
    for row in rows:
        segment, offset, time, *_ = row
        first = bisect_right(lowers, time)
        if offset >= cuts[segment][first]:
            yield Unsound(row, lowers[first], cuts[segment][first])


def _find_least_cuts(marks: Sequence[Json], segment: str) -> list[int]:
    """Return the least offset in the cuts of each mark and of all later ones."""
    least_cuts = [NEVER]
    for mark in reversed(marks):
        least_cuts.append(min(least_cuts[-1], mark["cut"].get(segment, 0)))
    return least_cuts[::-1]


@law("1.2", CONCEPTS)
def cuts_are_complete(
    marks: Iterable[Json], scalings: Sequence[Scaling], scaled_at: Sequence[int]
) -> Iterator[str]:
    """A cut that names a segment contains all predecessors of it up to their ends, and no more.

    A scaling counts for the marks after its answer.

    >>> marks = [{"seq": 1, "cut": {"0": 3, "2": 1}}, {"seq": 2, "cut": {"0": 3, "2": 1}}]
    >>> list(cuts_are_complete(marks, [Scaling({0: 5}, range(2, 3))], scaled_at=[1]))
    ["{'seq': 2, 'cut': {'0': 3, '2': 1}} is not complete: {0: 5, 2: 1}"]
    >>> list(cuts_are_complete([{"seq": 2, "cut": {"0": 6}}], [Scaling({0: 5}, [])], [1]))
    ["{'seq': 2, 'cut': {'0': 6}} is beyond the ends {0: 5}"]
    """
    for mark in marks:
        cut = position_from_wire(mark["cut"])
        known_scalings = scalings[: sum(scaled_after < mark["seq"] for scaled_after in scaled_at)]
        whole_cut = complete(cut, known_scalings)
        if not reaches(cut, whole_cut):
            yield f"{mark} is not complete: {whole_cut}"
        ends = dict[int, int]()
        for scaling in known_scalings:
            ends.update(scaling.sealed)
        if any(cut.get(segment, 0) > end for segment, end in ends.items()):
            yield f"{mark} is beyond the ends {ends}"


@law("1.3", CONCEPTS)
def uppers_are_true(marks: Iterable[Json], declared: Iterable[Row]) -> Iterator[str]:
    """No row below a cut is later than the upper, if all writers declare their largest times."""
    largest: dict[int, list[int]] = {}
    for segment, _, time, *_ in declared:  # in the order of their offsets
        running_maxima = largest.setdefault(segment, [])
        running_maxima.append(max([time, *running_maxima[-1:]]))
    for mark in marks:
        for segment, end in position_from_wire(mark["cut"]).items():
            if end and largest[segment][end - 1] > mark["upper"]:
                yield f"{mark} has a row at {largest[segment][end - 1]} in segment {segment}"


@law("1.4", CONCEPTS)
def windows_are_true(
    windows: Iterable[WindowSeen],
    marks: Iterable[Json],
    rows: Iterable[Row],
    scalings: Sequence[Scaling],
) -> Iterator[str]:
    """A window comes from marks that its position allows, and has all rows below its lower."""
    by_seq = {mark["seq"]: mark for mark in marks}
    ends = _find_ends_below({mark["lower"] for mark in by_seq.values()}, rows)
    for window_seen in windows:
        fault = _find_window_fault(
            window_seen, complete(window_seen.position, scalings), by_seq, ends
        )
        if fault:
            yield f"{window_seen.window} for {dict(window_seen.position)}: {fault}"


def _find_ends_below(lowers: Iterable[int], rows: Iterable[Row]) -> dict[int, dict[int, int]]:
    """Return where the rows below each lower end, by segment."""
    ordered_rows = sorted(rows, key=itemgetter(2))
    ends: dict[int, int] = {}
    ends_by_lower = {}
    index = 0
    for lower in sorted(lowers):
        while index < len(ordered_rows) and ordered_rows[index][2] < lower:
            segment, offset, *_ = ordered_rows[index]
            ends[segment] = max(ends.get(segment, 0), offset + 1)
            index += 1
        ends_by_lower[lower] = dict(ends)
    return ends_by_lower


def _find_window_fault(
    window_seen: WindowSeen,
    position: Position,
    by_seq: Mapping[int, Json],
    ends: Mapping[int, Position],
) -> str | None:
    bound = window_seen.window["lower"]
    if window_seen.least is not None and (bound is None or bound < window_seen.least):
        return f"the lower is below {window_seen.least}, which a truncation left"
    for side in ("lower", "upper"):
        mark = by_seq.get(window_seen.window[f"{side}_seq"] or 0, {})
        if window_seen.window[side] != mark.get(side) or window_seen.window[
            f"{side}_seq"
        ] != mark.get("seq"):
            return f"the {side} comes from no mark"
    lower = by_seq.get(window_seen.window["lower_seq"] or 0)
    upper = by_seq.get(window_seen.window["upper_seq"] or 0)
    if lower is not None and not reaches(position, position_from_wire(lower["cut"])):
        return f"the position does not reach {lower}"
    if upper is not None and not reaches(position_from_wire(upper["cut"]), position):
        return f"the position is beyond {upper}"
    if lower is not None and not reaches(position, ends[lower["lower"]]):
        return f"rows below the lower end at {ends[lower['lower']]}"
    return None


@law("1.5", THEORY)
def members_reach_the_lower(noted: float, lower: int) -> bool:
    """A member that a mark counts has noted the mark's lower."""
    return noted >= lower


@law("1.6", THEORY)
def cuts_reach_the_notes(cut: Position, noted_position: Position) -> bool:
    """A cut reaches the position of the first note at or above the lower, or of the last one."""
    return reaches(cut, noted_position)


@law("1.7", CONCEPTS)
def uppers_are_noted(upper: int, largest_noted: float) -> bool:
    """An upper is at most the largest time that a member noted or declared."""
    return upper <= largest_noted


# 2. Marks are a chain


@law("2.1", FOLLOWING)
def marks_are_ordered(answers: Sequence[Answer]) -> Iterator[str]:
    """In an answer `seq` and `lower` rise, and each cut reaches the one before."""
    for first, two in _pair_marks(answers):
        if two["seq"] == first["seq"]:
            continue
        cuts = [position_from_wire(mark["cut"]) for mark in (two, first)]
        if two["seq"] < first["seq"] or two["lower"] <= first["lower"] or not reaches(*cuts):
            yield f"{two} came after {first}"


@law("2.2", FOLLOWING)
def marks_come_once(answers: Sequence[Answer]) -> Iterator[str]:
    """An answer contains no mark twice, and none up to the seq that was asked for."""
    for after, marks, _ in answers:
        before = after
        for mark in marks:
            if mark["seq"] <= after or mark["seq"] == before:
                yield f"{mark} came again after {after}"
            before = mark["seq"]


@law("2.3", FOLLOWING)
def marks_never_change(answers: Sequence[Answer]) -> Iterator[str]:
    """A mark never changes while it is kept. The last answer has all marks after its seq."""
    known_marks: dict[int, Json] = {}
    for mark in _list_marks(answers):
        was = known_marks.setdefault(mark["seq"], mark)
        if was != mark:
            yield f"{was} became {mark}"
    last = answers[-1]
    first_kept = max(last.after + 1, last.first)
    left = {mark["seq"] for mark in last.marks}
    for seq, mark in known_marks.items():
        if seq >= first_kept and seq not in left:
            yield f"{mark} is lost"


@law("2.4", FOLLOWING)
def answers_resume_anywhere(answers: Sequence[Answer]) -> Iterator[str]:
    """An answer begins with the next mark, or with the first kept mark if that is later."""
    for after, marks, first in answers:
        if marks and marks[0]["seq"] > max(after + 1, first):
            yield f"after {after} came {marks[0]}"


@law("2.5", FOLLOWING)
def answers_have_no_gaps(answers: Sequence[Answer]) -> Iterator[str]:
    """No mark is left out of an answer, so none is added later."""
    for first, two in _pair_marks(answers):
        if two["seq"] > first["seq"] + 1:
            yield f"{two} came next to {first}"


@law("2.6", FOLLOWING)
def final_marks_are_last(answers: Sequence[Answer]) -> Iterator[str]:
    """No mark follows one with `final`."""
    marks = [*_list_marks(answers)]
    end = min((mark["seq"] for mark in marks if mark.get("final")), default=NEVER)
    for mark in marks:
        if mark["seq"] > end:
            yield f"{mark} follows the end {end}"


def _list_marks(answers: Sequence[Answer]) -> Iterator[Json]:
    for answer in answers:
        yield from answer.marks


def _pair_marks(answers: Sequence[Answer]) -> Iterator[tuple[Json, Json]]:
    for answer in answers:
        yield from pairwise(answer.marks)


@law("2.7", FOLLOWING)
def marks_begin(first: int | None, first_asked: int, first_heard: int) -> Iterator[str]:
    """A truncation drops the marks before its cut, and never the last one.

    The first mark is at least the answered one, and at most the requested one.

    >>> [*marks_begin(3, first_asked=3, first_heard=3), *marks_begin(None, 1, 1)]
    []
    >>> [*marks_begin(4, 3, 3), *marks_begin(2, 3, 3), *marks_begin(None, 3, 3)]
    ['the first mark is 4, not 3', 'the first mark is 2, not 3', 'the first mark is None, not 3']
    """
    if not first_heard <= (first or 1) <= first_asked:
        wanted_seqs = first_heard if first_heard == first_asked else (first_heard, first_asked)
        yield f"the first mark is {first}, not {wanted_seqs}"


@law("2.8", FOLLOWING)
def marks_are_deleted_by_order(deleted: Collection[str], ordered: Collection[str]) -> bool:
    """Marks of a stream are deleted only where a truncation was asked for."""
    return set(deleted) <= set(ordered)


@law("2.9", FOLLOWING)
def replicas_agree(expected: Sequence[Json], shown: Sequence[Json]) -> Iterator[str]:
    """In the end, all controllers and clients have the same marks."""
    if shown != expected:
        yield f"{len(shown)} marks, the last {shown[-1:]}, not {len(expected)}: {expected[-1:]}"


@law("2.10", FOLLOWING)
def lowers_are_of_marks(looks: Iterable[Look], marks: Iterable[Json]) -> Iterator[str]:
    """A lower in an answer is the lower of a mark."""
    unmarked_lowers = {look.lower for look in looks} - {None, *(mark["lower"] for mark in marks)}
    yield from (f"an answer had the lower {lower}, which no mark has" for lower in unmarked_lowers)


@law("2.11", FOLLOWING)
def lowers_never_fall(looks: Sequence[Look]) -> Iterator[str]:
    """A lower in an answer is not below one that was answered before it was asked for.

    The lower of a domain is a register over all controllers: it only rises, so a history is
    linearizable if the answers, ordered by their lowers, obey real time.

    >>> overlapping, later = Look(0.0, 2.0, 5), Look(2.5, 3.0, 5)
    >>> list(lowers_never_fall([Look(0.0, 1.0, 7), overlapping]))
    []
    >>> list(lowers_never_fall([Look(0.0, 1.0, 7), overlapping, later]))
    ['5 at 2.5 to 3.0 after 7 at 0.0 to 1.0']
    """
    by_end = sorted(looks, key=attrgetter("ended"))
    ended_count = 0
    highest = Look(0.0, 0.0, None)
    for look in sorted(looks, key=attrgetter("begun")):
        while by_end[ended_count].ended < look.begun:
            highest = max(highest, by_end[ended_count], key=attrgetter("value"))
            ended_count += 1
        if look.value < highest.value:
            yield f"{look} after {highest}"


@law("2.12", FOLLOWING)
def lowers_are_noted(looks: Iterable[Look], sent: Sequence[tuple[float, int]]) -> Iterator[str]:
    """A lower in an answer is at most the largest time that was sent before, as (moment, time).

    >>> list(lowers_are_noted([Look(0.0, 1.0, 5), Look(0.0, 3.0, 7)], sent=[(0.5, 5), (2.0, 7)]))
    []
    >>> list(lowers_are_noted([Look(0.0, 1.0, 7)], sent=[(0.5, 5), (2.0, 7)]))
    ['7 at 0.0 to 1.0, and 5 was noted']
    """
    largest = float("-inf")
    index = 0
    for look in sorted(looks, key=attrgetter("ended")):
        while index < len(sent) and sent[index][0] <= look.ended:
            largest = max(largest, sent[index][1])
            index += 1
        if look.value > largest:
            yield f"{look}, and {largest} was noted"


# 3. An acknowledged note is durable


@law("3.1", THEORY)
def notes_last(
    members: Mapping[str, Json],
    acknowledged: Mapping[str, Claim],
    promised: Mapping[str, Claim] | None = None,
) -> Iterator[str]:
    """A member has all that was acknowledged to its writer, and nothing that it did not send.

    >>> members = {"a": {"times": {"default": 7}, "position": {"0": 3}}}
    >>> list(notes_last(members, {"a": Claim({"default": 7}, {0: 3})}))
    []
    >>> len([*notes_last(members, {"a": Claim({"default": 8}, {0: 3})})])
    1
    """
    for writer, claim in acknowledged.items():
        row = members.get(writer, {"times": {}, "position": {}})
        kept_claim = Claim(row["times"], position_from_wire(row["position"]))
        if not _covers(kept_claim, claim):
            yield f"{writer} was acknowledged {claim}, and has {kept_claim}"
        if promised is not None and not _covers(promised[writer], kept_claim):
            yield f"{writer} sent {promised[writer]}, and has {kept_claim}"


def _covers(first: Claim, other: Claim) -> bool:
    times = all(first.times.get(domain, -NEVER) >= time for domain, time in other.times.items())
    return times and reaches(first.position, other.position)


@law("3.2", THEORY)
def states_last(members: Mapping[str, Json], states: Mapping[str, str]) -> Iterator[str]:
    """A member has the state that its writer noted last, or is excluded."""
    for writer, state in states.items():
        row = members.get(writer)
        if row is None or row["state"] != state:
            yield f"{writer} is {state}, not {row}"


@law("3.3", THEORY)
def reports_last(group: Position, reported: Position, reporting: Position) -> Iterator[str]:
    """A reader group is at or after the answered reports, and not after all reports.

    >>> list(reports_last({0: 3, 1: 9}, reported={0: 4}, reporting={0: 5, 1: 8}))
    ['the group stands at {0: 3, 1: 9}: {0: 4} was answered, {0: 5, 1: 8} was sent']
    """
    if not (reaches(group, reported) and reaches(reporting, group)):
        yield f"the group stands at {group}: {reported} was answered, {reporting} was sent"


@law("3.4", THEORY)
def scalings_last(scale_events: Sequence[Json], scalings: Iterable[Scaling]) -> Iterator[str]:
    """A stream has all scale events that were made, each once and in order."""
    wire_scalings = [scaling.to_wire() for scaling in scalings]
    if list(scale_events) != wire_scalings:
        yield f"the scale events are {scale_events}, not {wire_scalings}"


@law("3.5", THEORY)
def notes_are_committed(sequence: int, kept: MemberRecord | None) -> bool:
    """The member of a note that is answered has the number of the note, or a later one."""
    return kept is not None and kept.sequence >= sequence


@law("3.6", PROTOCOL)
def members_never_go_back(before: MemberRecord, after: MemberRecord, *, starts_again: bool) -> bool:
    """Number, session, position and time of a member never go back, but for one removed."""
    return (
        after.sequence >= before.sequence
        and reaches(after.position, before.position)
        and int(after.session.id or 0) >= int(before.session.id or 0)
        and (
            starts_again
            or before.excluded == "removed"
            or after.times.get(DOMAIN, -NEVER) >= before.times.get(DOMAIN, -NEVER)
        )
    )


@law("3.7", PROTOCOL)
def states_are_noted(state: str, noted_states: Sequence[str]) -> bool:
    """A member has the state of the note with its number, which one request has."""
    return [*noted_states] == [state]


@law("3.8", THEORY)
def losses_are_reported(lost: int, reported: Collection[int]) -> bool:
    """A controller reports the last mark that its database lost, and nothing without a loss."""
    return max(reported, default=0) >= lost if lost else not reported


# 4. A stream has one owner


@law("4.1", THEORY)
def commits_are_of_owners(written: Collection[int], owned: Collection[int]) -> bool:
    """A controller commits only to buckets with its lease."""
    return set(written) <= set(owned)


@law("4.2", THEORY)
def buckets_are_shared(owned: Sequence[int], buckets: int, controllers: int) -> bool:
    """In the end, each bucket has an owner, and controllers own as many as each other."""
    return sum(owned) == buckets and max(owned) <= -(-buckets // controllers)


@law("4.3", PROTOCOL)
def older_processes_are_fenced(*, accepted: bool) -> bool:
    """No note of an older process is accepted once the younger one has the writer's name."""
    return not accepted


# 5. No writer is left out early or unnamed


@law("5.1", THEORY)
def exclusions_are_due(
    marks: Iterable[Json], silent: str | None, absences: Mapping[str, int] | None = None
) -> Iterator[str]:
    """A mark excludes a silent writer, once, and each other at most as often as it was away.

    >>> marks = [{"seq": 1, "excluded": ["a"]}, {"seq": 2, "excluded": ["b"]}]
    >>> list(exclusions_are_due(marks, silent="b"))
    ["{'seq': 1, 'excluded': ['a']} advanced without a"]
    >>> list(exclusions_are_due([{"seq": 1, "excluded": []}], silent="b"))
    ['0 marks advanced without b, which was silent']
    >>> marks = [{"seq": 1, "excluded": ["a"]}, {"seq": 2, "excluded": ["a"]}]
    >>> list(exclusions_are_due(marks, silent=None, absences={"a": 1}))
    ["{'seq': 2, 'excluded': ['a']} advanced without a"]
    """
    left = Counter(absences or {})
    times = 0
    for mark in marks:
        if mark.get("final"):
            continue
        names = [name for name in mark["excluded"] if name != silent]
        early = [name for name in names if left[name] < 1]
        left.subtract(names)
        if early:
            yield f"{mark} advanced without {', '.join(early)}"
        times += len(mark["excluded"]) - len(names)
    if silent is not None and times != 1:
        yield f"{times} marks advanced without {silent}, which was silent"


@law("5.2", THEORY)
def exclusions_wait_for_the_timeout(silent_ms: float, timeout_ms: float) -> bool:
    """A writer is excluded only after its timeout has passed in silence, by the service clock."""
    return silent_ms >= timeout_ms


@law("5.3", THEORY)
def exclusions_are_named(writer: str, excluded: Collection[str]) -> bool:
    """The first mark that advances without a writer names it."""
    return writer in excluded


@law("5.4", PROTOCOL)
def late_writers_are_told(note: object, answer: object, *, told: bool, late: bool) -> bool:  # noqa: ARG001 - shown
    """The answer to a note below the lower says that its writer is excluded."""
    return told or not late


@law("5.5", THEORY)
def service_clocks_advance(before_ms: float, after_ms: float, latest_ms: float) -> bool:
    """A service clock never goes back, and is never ahead of the time that has passed."""
    return before_ms <= after_ms <= latest_ms


# 6. Spark gets a mark only with its rows


@law("6.1", THEORY)
def results_are_exact(expected: Iterable[object], output: Iterable[object]) -> Iterator[str]:
    """A query or table has each row of the true result once, and no other row.

    >>> list(results_are_exact(["a", "b"], ["a", "c", "c"]))
    ['lacks b', 'too often: c', 'too often: c']
    """
    true = Counter(expected)
    output_counts = Counter(output)
    for row in (true - output_counts).elements():
        yield f"lacks {row}"
    for row in (output_counts - true).elements():
        yield f"too often: {row}"


@law("6.2", THEORY)
def batches_stay(batches: Mapping[int, Sequence[object]]) -> Iterator[str]:
    """A batch that runs again has the same rows.

    >>> list(batches_stay({3: [["a"], []], 4: [["b"], ["b"]]}))
    ["batch 3 changed: [['a'], []]"]
    """
    for number, runs in batches.items():
        if any(run != runs[0] for run in runs):
            yield f"batch {number} changed: {runs}"


# 7. Complete means known to be complete


@law("7.1", THEORY)
def claims_are_true(commits: Sequence[Commit], true_rows: Sequence[TableRow]) -> Iterator[str]:
    """A table that claims to be complete to a time has all rows below it.

    >>> truth = [(1, "a"), (2, "b")]
    >>> list(claims_are_true([Commit(3, truth[:1]), Commit(9, truth), Commit(None, [])], truth))
    ["commit 0 claims all below 3 and lacks ['b']"]
    """
    for number, (complete_to, rows) in enumerate(commits):
        if complete_to is None:
            continue
        names_below = {name for time, name in true_rows if time < complete_to}
        if missing := sorted(names_below - {name for _, name in rows}):
            yield f"commit {number} claims all below {complete_to} and lacks {missing}"


# 8. The service stays available

ANSWERS = observe(
    "8.1",
    "answers",
    "Honest notes are accepted, every answer is documented, and one comes within 300 s.",
    CHAOS,
)
LIVE = observe("8.2", "processes live", "No process ends by itself, and each starts again.", CHAOS)


@law("8.3", CHAOS)
def watermarks_advance(lower: float | None, due: float, latest: float = NEVER) -> bool:
    """The lower reaches a time that all writers noted, within 60 s, and none later than noted."""
    return lower is not None and due <= lower <= latest


@law("8.4", PROTOCOL)
def streams_have_one_log(logs: Sequence[object], members: Collection[str], stray: str) -> bool:
    """A stream knows one log, and a writer of another log is not a member."""
    return len(logs) == 1 and stray not in members
