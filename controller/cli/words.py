"""What the controller decided, in the sentences that an operator would say.

Each function takes the JSON of the controller's answers and returns text; none asks or prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from controller.cli.times import shown_gap, shown_seconds, shown_time, time_beside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Json = dict[str, Any]
NAMED = 5
"""So many writers are named in a sentence."""

REASONS = {
    "timed_out": "timed out",
    "removed": "removed by an operator",
    "returned_late": "came back late",
    "sealed": "live when the stream was sealed",
}
ABANDONED = (
    "Every writer that has not finished is excluded: the watermark advances again when one of them "
    "notes a later time."
)
RESTING = {"idle": "idle", "finished": "finished", "excluded": "excluded"}


class Further(NamedTuple):
    """What the sentences say beyond the answer of ``explain``.

    `writers` is a page of the stream's writers, the holders first, `domain` the one that was asked
    for, `excluded` the first of the writers that are, and `without_all` the dry run without any of
    several holders.
    """

    writers: Json
    domain: str | None = None
    excluded: Sequence[Json] = ()
    without_all: Json | None = None


def explained(stream: str, found: Json, further: Further) -> Iterator[str]:
    """Yield sentences: who holds the watermark, why the others do not, and how it goes on.

    `found` is the answer of ``explain``.
    """
    now, states = further.writers["now"], further.writers["states"]
    yield decided(stream, found)
    rows = {row["writer"]: row for row in further.writers["writers"]}
    if found["decision"] == "hold":
        yield _holding(found, rows, now)
    yield from _others(found, _waiting(found, rows, states), further.domain)
    if found["decision"] == "quiet" and states["excluded"] and not states["live"] + states["idle"]:
        yield ABANDONED
    if found["decision"] == "hold":
        yield _goes_on(found)
        yield _left_out(found, further.without_all)
    yield _excluded(further.excluded, states["excluded"], now)
    yield from (f"{hint['writer']} {hint['detail']}" for hint in found["hints"])


def decided(stream: str, found: Json) -> str:
    """Return what the controller decided, in a sentence."""
    at = _at(found["lower"])
    if found["decision"] == "hold":
        return f"{stream} holds {at}: it waits for {_count(found['holders'], 'writer')}."
    if found["decision"] == "advance":
        return f"{stream}, {at}, advances to {shown_time(found['next_lower'])}."
    if found["decision"] == "sealed":
        return f"{stream} is sealed {at}: it takes no more notes, and no mark follows."
    return f"{stream} is quiet {at}: it waits for no writer; everything is marked."


def would(found: Json) -> str:
    """Return in a sentence what a dry run found."""
    then = found["would"]
    at, excluded = _at(then["lower"]), ", ".join(then["excluded"])
    verb = {
        "advance": f"advance to {shown_time(then['lower'])}",
        "hold": f"hold {at}",
        "quiet": f"be quiet {at}",
        "sealed": f"stay sealed {at}",
    }[then["decision"]]
    return f"Then it would {verb}{f', without {excluded}' if excluded else ''}."


def states_shown(states: Mapping[str, int]) -> str:
    """Return how many writers are in each state.

    >>> states_shown({"live": 2, "idle": 0, "finished": 1, "excluded": 0})
    '2 live, 0 idle, 1 finished, 0 excluded'
    """
    return ", ".join(f"{number:,} {state}" for state, number in states.items())


def _holding(found: Json, rows: Mapping[str, Json], now: int) -> str:
    """Say who has held the watermark longest, since when, and what was heard of it."""
    first = found["waiting_for"][0]
    writer, held = first["writer"], shown_seconds(first["held_for_ms"])
    row = rows.get(writer)
    said = _noted(first["time"], found["lower"])
    if row is not None:
        said += f", and was last heard {shown_seconds(max(0, now - row['noted_at']))} ago"
    if found["holders"] == 1:
        return f"{writer} has held it for {held}: it {said}."
    names = _names([each["writer"] for each in found["waiting_for"]], found["holders"])
    return f"They are {names}. {writer} has held it longest, for {held}: it {said}."


def _noted(time: int | None, lower: int | None) -> str:
    if time is None:
        return "has noted no time yet"
    if lower is not None and time < lower:
        return f"noted {time_beside(time, lower)}, which is below the watermark"
    return f"noted {time_beside(time, lower)} and no later time"


def _waiting(found: Json, rows: Mapping[str, Json], states: Json) -> dict[str, int]:
    """Return the number of writers in each state, of holders that they are live.

    One that was excluded and came back is called excluded until it has caught up.
    """
    names = (each["writer"] for each in found["waiting_for"])
    back = sum(rows.get(name, {}).get("state") == "excluded" for name in names)
    moved = {"live": states["live"] + back, "excluded": states["excluded"] - back}
    return {**states, **moved}


def _others(found: Json, states: Mapping[str, int], domain: str | None) -> Iterator[str]:
    """Say why the writers that do not hold the watermark do not matter to it now."""
    ahead = max(0, states["live"] - found["holders"])
    if ahead:
        verb = "has" if ahead == 1 else "have"
        live = "live writer" if found["holders"] == 0 else "other live writer"
        vouches = f", or vouch{'es' if ahead == 1 else ''} for another domain than {domain}"
        yield f"{_count(ahead, live)} {verb} noted later times{vouches if domain else ''}."
    resting = [f"{states[state]:,} {word}" for state, word in RESTING.items() if states[state]]
    if resting:
        yield f"Not waited for: {', '.join(resting)}."
    if not any(states.values()):
        yield "No writer has joined yet."


def _goes_on(found: Json) -> str:
    """Say when a watermark that is held goes on by itself."""
    waits = found["waiting_for"]
    left = [each["times_out_in_ms"] for each in waits]
    who = waits[0]["writer"] if found["holders"] == 1 else "each of them"
    until = f"It advances when {who} notes a later time"
    if None in left:
        return f"{until}, and not before: no writer times out."
    all_named = len(waits) == found["holders"]
    at = f"in {shown_seconds(max(left))}{'' if all_named else ' at the earliest'}"
    ends = f"{who} times out" if found["holders"] == 1 else "the last of them times out"
    return f"{until}, or automatically {at}, when {ends}."


def _left_out(found: Json, without_all: Json | None) -> str:
    """Say where the watermark would be without those that hold it."""
    first, lower = found["waiting_for"][0]["writer"], found["lower"]
    if found["holders"] == 1:
        return _without(first, f"what {first} writes", lower, found["lower_without"].get(first))
    every = f"all {found['holders']:,}" if found["holders"] > 2 else "both"  # noqa: PLR2004 - a pair
    one = "Without one of them alone nothing changes."
    if without_all is None:
        return one
    return f"{one} {_without(every, 'what they write', lower, without_all['lower'])}"


def _without(who: str, what: str, lower: int | None, then: int | None) -> str:
    if then is None:
        return f"Without {who} there would still be no mark."
    if then == lower:
        return f"Without {who} it would stay where it is: no other writer has noted a later time."
    at = time_beside(then, lower)
    gap = "" if lower is None else f", {shown_gap(lower, then)} later"
    return f"Without {who} it would be at {at}{gap}; {what} below {at} would then be late."


def _excluded(rows: Sequence[Json], number: int, now: int) -> str:
    if not number:
        return "No writer is excluded."
    named = [f"{row['writer']} ({_why(row['excluded'], now)})" for row in rows]
    return f"Excluded at present: {_names(named, number)}."


def _why(exclusion: Json, now: int) -> str:
    reason, since = exclusion["reason"], exclusion["since"]
    ago = "" if since is None else f" {shown_seconds(max(0, now - since))} ago"
    return f"{REASONS.get(reason, reason)}{ago}"


def missing_shown(found: Json, now: int) -> str:
    """Return whom a cut or a window is without, as the end of a sentence.

    >>> away = {"writer": "stock", "reason": "timed_out", "since": 0, "time": 5}
    >>> missing_shown({"missing": [away], "missing_count": 1}, now=14_400_000)
    ', without stock: timed out 4h ago'
    >>> missing_shown({"missing": [], "missing_count": 0}, now=0)
    ''
    """
    named = [f"{each['writer']}: {_why(each, now)}" for each in found["missing"]]
    return f", without {_names(named, found['missing_count'])}" if named else ""


def _names(names: Sequence[str], number: int) -> str:
    """Return the first names, and how many more there are.

    >>> _names(["a", "b"], 2), _names(["a", "b"], 9)
    ('a and b', 'a, b and 7 more')
    """
    shown = list(names[:NAMED])
    if number > len(shown):
        shown.append(f"{number - len(shown):,} more")
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _at(lower: int | None) -> str:
    return "before its first mark" if lower is None else f"at {shown_time(lower)}"
