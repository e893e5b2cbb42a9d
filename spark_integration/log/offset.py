"""The offset of a file log in Spark's offset log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from noted_time import Rejected
from noted_time.client import Json, position_from_wire, position_to_wire
from noted_time.reading import WholeFrom
from spark_integration.marks.released import Released, source_to_json, whole_from_json
from spark_integration.scan.time_range import ALL_TIMES, TimeRange


@dataclass(frozen=True, slots=True)
class LogOffset:
    """How far a query has read the file log, and each domain's last mark that it has applied.

    >>> offset = LogOffset("flights", segments={0: 12}, marks={"default": Released("a", 3, 99)})
    >>> offset.to_json()["segments"]
    {'0': 12}
    >>> LogOffset.from_json(offset.to_json()) == offset
    True
    """

    stream: str
    run: int = 0  # how many batches restated a lower, see `Restated`
    segments: Mapping[int, int] = field(default_factory=dict)
    marks: Mapping[str, Released] = field(default_factory=dict)
    backlog: bool | None = None
    times: TimeRange = ALL_TIMES
    begin: Mapping[int, int] = field(default_factory=dict)
    root: str = ""
    claims: bool = False
    # these alone start no micro-batch
    domain: str | None = field(default=None, compare=False)
    lag_ms: int = field(default=0, compare=False)
    whole: WholeFrom | None = field(default=None, compare=False)
    first_lower: int | None = field(default=None, compare=False)

    def continue_as(self, new: LogOffset, domain: str) -> LogOffset:
        """Return this offset for a query that would otherwise begin at `new`.

        >>> offset = LogOffset("flights", marks={"default": Released()}, root="/log")
        >>> offset.continue_as(LogOffset("landings", root="/log"), "default")
        Traceback (most recent call last):
            ...
        noted_time.Rejected: the checkpoint is of stream 'flights', domain 'default', ...
        """
        recorded = next(iter(self.marks), domain)
        before = self.stream, recorded, self.root
        asked = new.stream, domain, new.root
        if before != asked:
            own, is_asked = (
                "stream {!r}, domain {!r}, under {}".format(*of) for of in (before, asked)
            )
            raise Rejected(
                f"the checkpoint is of {own}, and the query reads {is_asked}: read the former, or "
                "start a query with a new checkpoint"
            )
        return replace(self, claims=new.claims)

    def rename_domain(self, domain: str) -> LogOffset:
        return replace(self, marks=dict(zip((domain,), self.marks.values(), strict=False)))

    def get_released(self, domain: str) -> Released:
        return self.marks.get(domain, Released())

    def admit(self, domain: str, released: Released) -> LogOffset:
        return replace(self, marks={**self.marks, domain: released})

    def to_json(self) -> Json:
        json: Json = {
            "noted_log": self.stream,
            "run": self.run,
            "segments": position_to_wire(self.segments),
            "marks": {domain: mark.to_json() for domain, mark in sorted(self.marks.items())},
            "root": self.root,
        }
        if self.claims:
            json["claims"] = True
        json |= source_to_json(self.domain, self.lag_ms, self.whole, self.first_lower)
        if self.times != ALL_TIMES:
            json["times"] = {**asdict(self.times), "begin": position_to_wire(self.begin)}
        return json if self.backlog is None else {**json, "backlog": self.backlog}

    @classmethod
    def from_json(cls, json: Json) -> LogOffset:
        times = dict(json.get("times", {}))
        begin = position_from_wire(times.pop("begin", {}))
        return cls(
            stream=json["noted_log"],
            run=json["run"],
            segments=position_from_wire(json["segments"]),
            marks={domain: Released.from_json(mark) for domain, mark in json["marks"].items()},
            backlog=json.get("backlog"),
            times=TimeRange(**times),
            begin=begin,
            root=json["root"],
            claims=json.get("claims", False),
            domain=json.get("domain"),
            lag_ms=json.get("lag_ms", 0),
            whole=whole_from_json(json),
            first_lower=json.get("first_lower"),
        )
