"""What has to hold of one stream, or one domain of it, at the end.

Each check takes what was seen and what is true, and returns an account of each place where the two
do not agree. `docs/explain/chaos.md` states the laws; `tests/support/following.py` has those about
followers, for other tests share them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from noted_time.client import Json, position_from_wire
from noted_time.values import reaches
from tests.chaos.history import History, WindowSeen
from tests.chaos.register import Look
from tests.chaos.scaling import ScaledStream, Scaling, complete
from tests.chaos.writers import LoadWriter
from tests.support.honest import Event


def lost_notes(stream: ScaledStream, rows: Mapping[str, Json]) -> list[str]:
    """Return the writers with something acknowledged but not stored, or stored but never sent.

    Each position stands for all that it implies.
    """
    heard, sent = stream.scalings[: len(stream.heard_at)], stream.scalings
    found = []
    for writer in stream.writers:
        row = rows.get(writer.name, {"times": {}, "position": {}})
        times, position = row["times"], position_from_wire(row["position"])
        has_all = reaches(position, complete(writer.acknowledged_position, heard)) and all(
            times.get(domain, -1) >= noted for domain, noted in writer.acknowledged.items()
        )
        has_no_other = reaches(complete(writer.position, sent), position) and all(
            noted <= writer.promised.get(domain, -1) for domain, noted in times.items()
        )
        if not (has_all and has_no_other):
            found.append(f"{writer.name}: {row} {writer}")
    return found


def misstated(
    writers: Iterable[LoadWriter], rows: Mapping[str, Json], silent: str | None
) -> list[str]:
    """Return the writers whose state is not the last they noted: only one may be excluded."""
    found = []
    for writer in writers:
        expected = "excluded" if writer.name == silent else writer.state
        row = rows.get(writer.name)
        if expected != "new" and (row is None or row["state"] != expected):
            found.append(f"{writer.name} is {expected}, not {row}")
    return found


def excluded(
    marks: Iterable[Json], silent: str | None, absences: Mapping[str, int] | None = None
) -> list[str]:
    """Return the marks that advanced without a writer that was not silent.

    The silent one has to be excluded by exactly one mark, or nothing was proved. One that was away
    and came back may be excluded as often as it was away:

    >>> excluded([{"seq": 1, "excluded": ["a"]}, {"seq": 2, "excluded": ["b"]}], silent="b")
    ["{'seq': 1, 'excluded': ['a']} went on without a"]
    >>> excluded([{"seq": 1, "excluded": []}], silent="b")
    ['0 marks went on without b, which was silent']
    >>> marks = [{"seq": 1, "excluded": ["a"]}, {"seq": 2, "excluded": ["a"]}]
    >>> excluded(marks, silent=None, absences={"a": 1})
    ["{'seq': 2, 'excluded': ['a']} went on without a"]
    """
    left = Counter(absences or {})
    found, times = [], 0
    for mark in marks:
        names = [name for name in mark["excluded"] if name != silent]
        wrong = [name for name in names if left[name] < 1]
        left.subtract(names)
        if wrong:
            found.append(f"{mark} went on without {', '.join(wrong)}")
        times += len(mark["excluded"]) - len(names)
    if silent is not None and times != 1:
        found.append(f"{times} marks went on without {silent}, which was silent")
    return found


def false_windows(
    windows: Iterable[WindowSeen], marks: Iterable[Json], stream: ScaledStream, domain: str
) -> list[str]:
    """Return the windows that come from no mark, or from one that the position does not allow.

    And those with an event below the lower that the position has not read, whenever written. A
    position that names a segment has read all that came before it.
    """
    windows, by_seq = list(windows), {mark["seq"]: mark for mark in marks}
    ends = ends_below({mark["lower"] for mark in by_seq.values()}, stream.events, domain)
    return [
        f"{seen.window} for {dict(seen.position)}: {why}"
        for seen in windows
        if (why := _what_is_false(seen, complete(seen.position, stream.scalings), by_seq, ends))
    ]


def ends_below(
    lowers: Iterable[int], events: Iterable[Event], domain: str
) -> dict[int, dict[int, int]]:
    """Return for each lower where the events below it end, per segment."""
    waiting = sorted(events, key=lambda event: event.times[domain])
    ends: dict[int, int] = {}
    found, index = {}, 0
    for lower in sorted(lowers):
        while index < len(waiting) and waiting[index].times[domain] < lower:
            event = waiting[index]
            ends[event.segment] = max(ends.get(event.segment, 0), event.offset + 1)
            index += 1
        found[lower] = dict(ends)
    return found


def unsound(marks: Sequence[Json], events: Iterable[Event], domain: str) -> list[str]:
    """Return the marks with an event below the lower that does not lie below the cut."""
    ends = ends_below({mark["lower"] for mark in marks}, events, domain)
    return [
        f"{mark} leaves out events below {ends[mark['lower']]}"
        for mark in marks
        if not reaches(position_from_wire(mark["cut"]), ends[mark["lower"]])
    ]


def over_the_upper(marks: Iterable[Json], events: Iterable[Event], domain: str) -> list[str]:
    """Return the marks with an event below the cut that is later than the upper."""
    by_segment: dict[int, list[int]] = {}
    for event in events:  # in the order of their offsets
        largest = by_segment.setdefault(event.segment, [])
        event_time = event.times[domain]
        largest.append(max(event_time, largest[-1]) if largest else event_time)
    return [
        f"{mark} has an event at {by_segment[segment][end - 1]} in segment {segment}"
        for mark in marks
        for segment, end in position_from_wire(mark["cut"]).items()
        if end and by_segment[segment][end - 1] > mark["upper"]
    ]


def incomplete_cuts(
    marks: Iterable[Json], scalings: Sequence[Scaling], scaled_at: Sequence[int]
) -> list[str]:
    """Return the marks whose cut names a segment, and less than all that came before it.

    A scaling counts for the marks after those that there were when it was answered:

    >>> from tests.chaos.scaling import Scaling
    >>> marks = [{"seq": 1, "cut": {"0": 3, "2": 1}}, {"seq": 2, "cut": {"0": 3, "2": 1}}]
    >>> incomplete_cuts(marks, [Scaling({0: 5}, range(2, 3))], scaled_at=[1])
    ["{'seq': 2, 'cut': {'0': 3, '2': 1}} is not complete: {0: 5, 2: 1}"]
    """
    found = []
    for mark in marks:
        cut = position_from_wire(mark["cut"])
        whole = complete(cut, scalings[: sum(at < mark["seq"] for at in scaled_at)])
        if not reaches(cut, whole):
            found.append(f"{mark} is not complete: {whole}")
    return found


def lost_scalings(said: Sequence[Json], scalings: Iterable[Scaling]) -> list[str]:
    """Return how the scale events differ from those that were made, each once and in order.

    >>> lost_scalings([], [])
    []
    """
    made = [scaling.wire() for scaling in scalings]
    return [] if list(said) == made else [f"the scale events are {said}, not {made}"]


def misbegun(first: int | None, asked: int, heard: int) -> list[str]:
    """Return where the marks begin, if truncations do not explain it.

    That is at or before what was asked for, and at or after what was answered. Without a mark
    there is nothing to truncate, and the last one is never lost:

    >>> misbegun(3, asked=3, heard=3), misbegun(None, asked=1, heard=1)
    ([], [])
    >>> [misbegun(first, asked=3, heard=3) for first in (4, 2)]
    [['the first mark is 4, not 3'], ['the first mark is 2, not 3']]
    >>> misbegun(None, asked=3, heard=3)
    ['the first mark is None, not 3']
    """
    if heard <= (first or 1) <= asked:
        return []
    return [f"the first mark is {first}, not {heard if heard == asked else (heard, asked)}"]


def never_marked(looks: Iterable[Look], marks: Iterable[Json]) -> list[str]:
    """Return the lowers in answers that no mark has."""
    unmarked = {look.lower for look in looks} - {None, *(mark["lower"] for mark in marks)}
    return [f"an answer had the lower {lower}, which no mark has" for lower in unmarked]


def lost_reports(
    position: Mapping[int, int], heard: Mapping[int, int], sent: Mapping[int, int]
) -> list[str]:
    """Return where a reader group stands if that is before what was answered, or after all reports.

    >>> lost_reports({0: 3, 1: 9}, heard={0: 4}, sent={0: 5, 1: 8})
    ['the group stands at {0: 3, 1: 9}: {0: 4} was answered, {0: 5, 1: 8} was sent']
    """
    if reaches(position, heard) and reaches(sent, position):
        return []
    return [f"the group stands at {position}: {heard} was answered, {sent} was sent"]


def _what_is_false(
    seen: WindowSeen,
    position: Mapping[int, int],
    by_seq: Mapping[int, Json],
    ends: Mapping[int, Mapping[int, int]],
) -> str | None:
    bound = seen.window["lower"]
    if seen.least is not None and (bound is None or bound < seen.least):
        return f"the lower is below {seen.least}, which a truncation left"
    for side in ("lower", "upper"):
        if not _comes_from_a_mark(seen.window, side, by_seq):
            return f"the {side} comes from no mark"
    lower, upper = (by_seq.get(seen.window[f"{side}_seq"] or 0) for side in ("lower", "upper"))
    if lower is not None and not reaches(position, position_from_wire(lower["cut"])):
        return f"the position does not reach {lower}"
    if upper is not None and not reaches(position_from_wire(upper["cut"]), position):
        return f"the position is beyond {upper}"
    if lower is not None and not reaches(position, ends[lower["lower"]]):
        return f"events below the lower end at {ends[lower['lower']]}"
    return None


def _comes_from_a_mark(
    window: Mapping[str, int | None], side: str, by_seq: Mapping[int, Json]
) -> bool:
    """Whether a bound is that of the mark it names, or both are not there."""
    bound, seq = window[side], window[f"{side}_seq"]
    if seq is None:
        return bound is None
    return seq in by_seq and by_seq[seq][side] == bound


NOTHING = -1
"""Before every time that these writers note."""


def last_time(history: History) -> int:
    """Return a time above every noted one."""
    writers = [writer for stream in history.streams.values() for writer in stream.writers]
    return 1 + max(
        (noted for writer in writers for noted in writer.promised.values()), default=NOTHING
    )


def late(history: History, last: int) -> list[str]:
    """Return the domains whose time is not what it has to be, and what it is.

    That is `last`, which every live writer has noted, and the highest time noted if none lives.
    """
    found = []
    for (stream, domain), chain in history.chains.items():
        lower = NOTHING if chain.lower is None else chain.lower
        due = _due(history, stream, domain, last)
        if lower < due:
            found.append(f"{stream}/{domain} stands at {lower}, not {due}")
    return found


def _due(history: History, stream: str, domain: str, last: int) -> int:
    silent = history.silent.get(stream)
    writers = [each for each in history.streams[stream].writers if each.name != silent]
    if any(writer.state == "live" for writer in writers):
        return last
    return max((writer.acknowledged.get(domain, NOTHING) for writer in writers), default=NOTHING)
