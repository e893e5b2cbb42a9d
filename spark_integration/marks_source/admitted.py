"""The offset of the marks source: the last mark that a query has applied, by stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from noted_time.client import Json, position_from_wire, position_to_wire
from noted_time.reading import WholeFrom
from spark_integration.marks.released import Released, source_to_json, whole_from_json


@dataclass(frozen=True, slots=True)
class MarkAhead:
    """A mark applied in micro-batch `batch`, before the rest of its cut, `needs`, was read."""

    batch: int
    seq: int
    needs: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Admitted:
    """The last applied mark of a stream."""

    mark: Released = field(default_factory=Released)
    topic_id: str | None = None
    ahead: tuple[MarkAhead, ...] = ()  # up to two, in order
    # `None` if the query began after its topic's start; a change of it alone starts no micro-batch
    whole: WholeFrom | None = field(default=None, compare=False)
    domain: str | None = field(default=None, compare=False)
    first_lower: int | None = field(default=None, compare=False)

    def to_json(self) -> Json:
        json: Json = {"mark": self.mark.to_json()}
        if self.topic_id is not None:
            json["topic_id"] = self.topic_id
        if self.ahead:
            each = ({**asdict(a), "needs": position_to_wire(a.needs)} for a in self.ahead)
            json["ahead"] = list(each)
        source = source_to_json(self.domain, whole=self.whole, first_lower=self.first_lower)
        return {**json, **source}

    @classmethod
    def from_json(cls, json: Json) -> Admitted:
        ahead = (
            MarkAhead(**{**each, "needs": position_from_wire(each["needs"])})
            for each in json.get("ahead", ())
        )
        released = Released.from_json(json["mark"])
        source = whole_from_json(json), json.get("domain"), json.get("first_lower")
        return cls(released, json.get("topic_id"), tuple(ahead), *source)


@dataclass(frozen=True, slots=True)
class MarksOffset:
    """The applied marks of one or several streams.

    >>> offset = MarksOffset({"flights": Admitted(Released("a", 3, 99))}, "5b1e", run=1)
    >>> MarksOffset.from_json(offset.to_json()) == offset
    True
    """

    streams: Mapping[str, Admitted]
    token: str
    run: int = 0
    backlog: bool | None = None
    claims: bool = False
    lag_ms: int = field(default=0, compare=False)

    @property
    def least(self) -> Released:
        """The mark with the least lower, once all streams have a mark."""
        marks = [admitted.mark for admitted in self.streams.values()]
        if any(mark.lower is None for mark in marks):
            return Released()
        return min(marks, key=lambda mark: mark.lower or 0)

    def to_json(self) -> Json:
        streams = {name: self.streams[name].to_json() for name in sorted(self.streams)}
        json: Json = {"noted_marks": ",".join(streams), "token": self.token, "run": self.run}
        if self.backlog is not None:
            json["backlog"] = self.backlog
        if self.claims:
            json["claims"] = True
        return {**json, **source_to_json(lag_ms=self.lag_ms), "streams": streams}

    @classmethod
    def from_json(cls, json: Json) -> MarksOffset:
        admitted = {name: Admitted.from_json(each) for name, each in json["streams"].items()}
        more = json.get("backlog"), json.get("claims", False), json.get("lag_ms", 0)
        return cls(admitted, json["token"], json["run"], *more)
