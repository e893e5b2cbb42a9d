"""Describes why a dataset is not complete to a later time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from msgspec import Struct

from noted_time.installation import name_program
from noted_time.lineage.walking import Dataset, Hop, Hops, Step, find_culprit, find_step
from noted_time.values import MIN_INT64, format_time


class Why(Struct, frozen=True, dict=True):
    """How far a dataset is complete, and the hop that holds it back.

    - `time`: the requested time (Unix ms), or `None`.
    - `hops`: the dataset and all that it is made from, the nearest first.
    """

    dataset: Dataset
    time: int | None
    hops: Hops

    @property
    def root(self) -> Hop:
        """The hop of the dataset itself."""
        return self.hops[self.dataset]

    @property
    def is_complete(self) -> bool:
        """Whether the dataset has the requested time, or any time without one."""
        time = MIN_INT64 if self.time is None else self.time
        complete_to = self.root.complete_to
        return complete_to is not None and complete_to >= time and not self.root.doubt

    @cached_property
    def culprit_step(self) -> Step | None:
        """The step that holds back the dataset, or `None`."""
        has_time = self.time is not None and self.is_complete
        if has_time:
            return None
        return find_culprit(self.hops, self.dataset, self.time)

    @property
    def culprit(self) -> Hop | None:
        """The hop that holds back the dataset, or `None`."""
        if self.culprit_step is None or self.root.doubt:
            return None
        return self.culprit_step.hop

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        root = self.root
        known_clause = f"{self.dataset} is complete to {format_time(root.complete_to)}"
        asked_time = "any time" if self.time is None else format_time(self.time)
        unknown_clause = f"{self.dataset} is not known to be complete to {asked_time}"
        if root.doubt:
            return f"{unknown_clause}: {root.doubt}"
        if self.culprit_step is None and self.time is None:
            return f"{known_clause}, as far as its writers have noted{root.lack}"
        if self.culprit_step is None:
            return f"{known_clause}{root.lack}"
        cause = self._describe_cause(self.culprit_step)
        if root.complete_to is None:
            return f"{unknown_clause}, because {cause}"
        if self.time is None:
            return f"{known_clause} and not to a later time, because {cause}"
        return f"{known_clause} and not to {asked_time}, because {cause}"

    def _describe_cause(self, step: Step) -> str:
        hop = step.hop
        source = step.source
        if step.circle:
            names = " from ".join(str(dataset) for dataset in (*step.circle, step.circle[0]))
            return f"these are made from each other: {names}"
        if hop.why or source is None:
            return hop.why if hop.dataset == self.dataset else f"of {hop.dataset}: {hop.why}"
        if source.why:
            complete_to = format_time(self.hops[source.dataset].complete_to)
            return f"{source.why}: its sources are complete to {complete_to}"
        if hop.dataset.kind == "group":
            return f"{hop.dataset} is {step.lag}"
        return f"the query of {hop.dataset} is {step.lag}"

    @property
    def remedy(self) -> str:
        """The next step, or ""."""
        if self.culprit_step is not None and self.culprit_step.circle:
            return "inherit from a table that is not made from this one"
        if self.culprit is None:
            return ""
        name = self.culprit.dataset.name
        return self.culprit.remedy.format(program=name_program(), dataset=name)

    @property
    def lines(self) -> Iterator[str]:
        """Yield a line for each hop."""
        for hop in self.hops.values():
            line = self._describe_hop(hop)
            if hop is self.culprit:
                names_writers = hop.dataset.kind == "stream" and hop.complete_to is not None
                if names_writers and hop.why:
                    line += f"; {hop.why}"
                line += "  <-- holds it back"
            yield line

    def _describe_hop(self, hop: Hop) -> str:
        if hop.complete_to is None:
            return f"{hop.dataset} is not known to be complete: {hop.why}"
        clause = f"{hop.dataset} is complete to {format_time(hop.complete_to)}"
        lag = find_step(self.hops, hop).lag
        if lag and not hop.why:
            clause += f", {lag}"
        return f"{clause}{hop.lack}"

    def to_json(self) -> dict[str, Any]:
        """Return the answer and the hops as JSON."""
        fields = ("time", "is_complete", "sentence", "remedy")
        hops = [self._convert_hop(hop) for hop in self.hops.values()]
        return {name: getattr(self, name) for name in fields} | {"hops": hops}

    def _convert_hop(self, hop: Hop) -> dict[str, Any]:
        return {
            "dataset": hop.dataset.name,
            "domain": hop.dataset.domain or None,
            "kind": hop.dataset.kind,
            "complete_to": hop.complete_to,
            "sentence": self._describe_hop(hop),
            "sources": [str(source.dataset) for source in hop.sources],
            "culprit": hop is self.culprit,
        }

    def to_dot(self) -> str:
        """Return the hops as a graph for Graphviz, with an arrow from each source."""
        lines = ["digraph why {", "  rankdir=LR; node [shape=box];"]
        for hop in self.hops.values():
            name = json.dumps(str(hop.dataset))
            label = json.dumps(f"{hop.dataset}\n{format_time(hop.complete_to)}")
            color = ", color=red" if hop is self.culprit else ""
            lines.append(f"  {name} [label={label}{color}];")
            source_names = [json.dumps(str(source.dataset)) for source in hop.sources]
            lines += [f"  {source_name} -> {name};" for source_name in dict.fromkeys(source_names)]
        return "\n".join([*lines, "}"])
