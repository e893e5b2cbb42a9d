"""Describes why a dataset is not complete to a later time: the answer, its hops, and the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from noted_time.installation import name_program
from noted_time.reading.claims import NOT_CLAIMED
from noted_time.reading.lineage import (
    Dataset,
    Holder,
    Hop,
    Hops,
    compute_limit,
    find_circles,
    find_holder,
    find_open_time,
)
from noted_time.values import MIN_INT64, UNIX_MS, format_duration, format_time

ALL_NOTED = "as far as its writers have noted"


@dataclass(frozen=True)
class Why:
    """Up to when a dataset is complete, and the hop that holds it.

    - `time`: the requested time (Unix ms), or `None`.
    - `hops`: the dataset and all that it is made from, the nearest first.
    - `holder`: the hop to look at. `None` if the dataset has the time, or no hop is behind.
    """

    dataset: Dataset
    time: int | None
    hops: Hops
    holder: Holder | None

    @classmethod
    def of(cls, hops: Hops, dataset: Dataset, time: int | None) -> Why:
        """Judge the hops of a dataset, at `time` or at the time that it lacks first."""
        open_time = find_open_time(hops, dataset) if time is None else time
        holder = None if open_time is None else find_holder(hops, dataset, open_time)
        return cls(dataset, time, hops, holder)

    @property
    def complete_to(self) -> int | None:
        return self.hops[self.dataset].complete_to

    @property
    def is_complete(self) -> bool:
        """Whether the dataset has the requested time, or without one, any known time."""
        return self.hops[self.dataset].has(MIN_INT64 if self.time is None else self.time)

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        asked = "any time" if self.time is None else format_time(self.time)
        start = f"{self.dataset} is not known to be complete to {asked}"
        if self.complete_to is not None:
            to = "to a later time" if self.time is None else f"to {asked}"
            start = f"{self.dataset} is complete to {format_time(self.complete_to)} and not {to}"
        if self.holder is not None:
            return f"{start}, because {_judge(self.hops, self.holder)[0]}"
        root = self.hops[self.dataset]
        end = f", {ALL_NOTED}" if self.time is None else ""
        return f"{self.dataset} is complete to {format_time(self.complete_to)}{end}{_lack(root)}"

    @property
    def remedy(self) -> str:
        """The next step, or "" if no hop holds the dataset."""
        return "" if self.holder is None else _judge(self.hops, self.holder)[1]

    @property
    def lines(self) -> Iterator[str]:
        """Yield a line for each hop and each circle."""
        for hop in self.hops.values():
            holds = "  <-- holds it" if self.holder and hop is self.holder.hop else ""
            yield f"{hop.dataset}: {_describe_hop(self.hops, hop)}{holds}"
        for circle in find_circles(self.hops, self.dataset):
            yield f"circle: {_join_circle(circle)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": str(self.dataset),
            "complete_to": self.complete_to,
            "time": self.time,
            "is_complete": self.is_complete,
            "sentence": self.sentence,
            "remedy": self.remedy,
            "hops": [self._hop_to_json(hop) for hop in self.hops.values()],
            "circles": [[*map(str, each)] for each in find_circles(self.hops, self.dataset)],
        }

    def _hop_to_json(self, hop: Hop) -> dict[str, Any]:
        return {
            "dataset": hop.dataset.name,
            "domain": hop.dataset.domain or None,
            "kind": hop.dataset.kind,
            "complete_to": hop.complete_to,
            "is_read": hop.is_read,
            "why": hop.why or None,
            "waiting_for": [{"writer": w.writer, "time": w.time} for w in hop.waiting_for],
            "missing": None if hop.missing is None else [*hop.missing],
            "sources": [*dict.fromkeys(str(each.dataset) for each in hop.sources)],
            "culprit": self.holder is not None and hop is self.holder.hop,
        }

    def to_dot(self) -> str:
        """Return the hops as a graph for Graphviz, with an arrow from each source."""
        lines = ["digraph why {", "  rankdir=LR; node [shape=box];"]
        for hop in self.hops.values():
            holds = ", color=red, penwidth=2" if self.holder and hop is self.holder.hop else ""
            shown = "cannot be read" if not hop.is_read else format_time(hop.complete_to)
            label = _quote(f"{hop.dataset}\n{shown}")
            lines.append(f"  {_quote(str(hop.dataset))} [label={label}{holds}];")
            edges = dict.fromkeys(str(each.dataset) for each in hop.sources)
            lines += [f"  {_quote(each)} -> {_quote(str(hop.dataset))};" for each in edges]
        return "\n".join([*lines, "}"])


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _judge(hops: Hops, holder: Holder) -> tuple[str, str]:
    """Return why a hop holds the dataset, and what to do."""
    hop, program = holder.hop, name_program()
    name = hop.dataset.name
    if not hop.is_read:
        return f"{name} {_describe_unread(hop)}", f"run `{program} why {name}` where it can be read"
    if holder.is_circle:
        circle = holder.path[holder.path.index(holder.sources[0].dataset) :]
        cause = f"these are made from each other: {_join_circle(circle)}"
        return cause, f"name a source outside the circle to `{program} claim inherit`"
    if hop.dataset.kind == "stream":
        domain = f" --domain {hop.dataset.domain}" if hop.dataset.domain else ""
        return _describe_writers(hop), f"`{program} explain {name}{domain}` explains each writer"
    if hop.dataset.kind == "table" and (hop.complete_to is None or not holder.sources):
        return _judge_claim(hop, program)
    return _judge_reader(hops, holder, program)


def _judge_claim(hop: Hop, program: str) -> tuple[str, str]:
    name = hop.dataset.name
    if hop.complete_to is not None:
        return f"{name} has no later claim", "its claim names no stream: look at its query"
    remedy = f"`{program} claim accept {name}` lists the commits since the claim"
    if NOT_CLAIMED in hop.why:
        remedy = f"let its query claim (NotedTable), or its job (`{program} claim inherit`)"
    return f"nothing is claimed of {name}: {hop.why}", remedy


def _judge_reader(hops: Hops, holder: Holder, program: str) -> tuple[str, str]:
    """Return why a job, query or group holds the dataset, and what to do."""
    hop, name = holder.hop, holder.hop.dataset.name
    source = min(holder.sources, key=lambda each: compute_limit(hops, each))
    to = format_time(hops[source.dataset].complete_to)
    if source.by_job:
        since = "then" if source.taken_at is None else format_time(source.taken_at)
        cause = f"the job that writes {name} has not run since {since}"
        remedy = f"run the job, then `{program} claim inherit {name}`"
        return f"{cause}: its sources are complete to {to}", remedy
    who, remedy = name, "check that its consumers run and keep up, and commit after writing"
    if hop.dataset.kind != "group":
        place = name if hop.dataset.kind == "checkpoint" else "DIR"
        doctor = f"`{program} doctor {source.dataset.name} --checkpoint {place}`"
        who, remedy = f"the query of {name}", f"check that the query runs and keeps up: {doctor}"
    if hop.complete_to is None:
        return f"nothing is known of {who}: {hop.why}", remedy
    gap = _format_gap(hop.complete_to, compute_limit(hops, source))
    return f"{who} is {gap} behind {source.dataset}", remedy


def _describe_writers(hop: Hop) -> str:
    """Return which writers a stream waits for, as the end of a sentence."""
    if not hop.waiting_for:
        return hop.why
    first = min(hop.waiting_for, key=lambda each: MIN_INT64 if each.time is None else each.time)
    more = hop.holders - 1
    others = f", and {hop.dataset} waits for {more:,} more" if more > 0 else ""
    noted = "no time yet" if first.time is None else f"no time after {format_time(first.time)}"
    return f"{first.writer} has noted {noted}{others}"


def _describe_unread(hop: Hop) -> str:
    remembered = "" if hop.complete_to is None else "; the dataset made from it remembers "
    remembered += f"{format_time(hop.complete_to)}" if remembered else ""
    return f"cannot be read: {hop.why}{remembered}"


def _describe_hop(hops: Hops, hop: Hop) -> str:
    if not hop.is_read:
        return _describe_unread(hop)
    if hop.complete_to is None:
        return f"not known to be complete: {hop.why}"
    text = f"complete to {format_time(hop.complete_to)}"
    sources = hop.list_sources(hop.complete_to + 1)
    source = min(sources, key=lambda each: compute_limit(hops, each), default=None)
    if source is not None and compute_limit(hops, source) > hop.complete_to:
        gap = _format_gap(hop.complete_to, compute_limit(hops, source))
        text += f", {gap} behind {source.dataset}"
    elif hop.waiting_for:
        text += f": {_describe_writers(hop)}"
    return text + _lack(hop)


def _lack(hop: Hop) -> str:
    """Return which writers and rows a dataset lacks, as the end of a sentence."""
    without = f", without {', '.join(hop.missing)}" if hop.missing else ""
    return "; ".join([without, *hop.remarks])


def _format_gap(earlier: int, later: int) -> str:
    is_time = earlier in UNIX_MS and later in UNIX_MS
    return format_duration(later - earlier) if is_time else str(later - earlier)


def _join_circle(circle: Sequence[Dataset]) -> str:
    return " from ".join(map(str, [*circle, circle[0]]))
