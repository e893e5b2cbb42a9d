"""The marks that a query has let in beside another source, as its offset log has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from noted_time.client import Json, position_from_wire, position_to_wire
from noted_time.reading import WHOLE_LOG, WholeFrom
from spark_integration.marks.released import Released, whole_from_json, whole_to_json


@dataclass(frozen=True, slots=True)
class MarkAhead:
    """A mark let in with micro-batch `batch`, before that had read all of the mark's cut.

    `needs` is the part of the cut that was not read when the batch was planned.
    """

    batch: int
    seq: int
    needs: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Admitted:
    """The last mark of a stream that was let into a query beside another source.

    `topic_id` is that of the Kafka topic whose ends were looked at, `None` if there were none.
    `ahead` are the last marks that were let in before their cuts were read, in order, at most two.
    `whole` is from when on the query lacks no row, `None` if it began elsewhere than its topic. It
    alone is no reason for a micro-batch, and so does not count when offsets are compared.
    """

    mark: Released = field(default_factory=Released)
    topic_id: str | None = None
    ahead: tuple[MarkAhead, ...] = ()
    whole: WholeFrom | None = field(default=None, compare=False)

    def to_json(self) -> Json:
        """Return the shape that Spark keeps."""
        json: Json = {"mark": self.mark.to_json()}
        if self.topic_id is not None:
            json["topic_id"] = self.topic_id
        if self.ahead:
            each = ({**asdict(a), "needs": position_to_wire(a.needs)} for a in self.ahead)
            json["ahead"] = list(each)
        if self.whole not in (None, WHOLE_LOG):
            json["whole"] = whole_to_json(self.whole)
        return json

    @classmethod
    def from_json(cls, json: Json) -> Admitted:
        """Return it from what Spark kept."""
        ahead = (
            MarkAhead(**{**each, "needs": position_from_wire(each["needs"])})
            for each in json.get("ahead", ())
        )
        released = Released.from_json(json["mark"])
        return cls(released, json.get("topic_id"), tuple(ahead), whole_from_json(json))


@dataclass(frozen=True, slots=True)
class MarksOffset:
    """Which marks a query has let in beside another source, of one stream or of several.

    `token` tells the source apart from every other in the query's offset log; `run` counts the
    starts of the query. `backlog` is what was found when the batch was planned, `None` if nothing
    was known or asked. `claims`: the source feeds claims.

    >>> offset = MarksOffset({"flights": Admitted(Released("a", 3, 99))}, "5b1e", run=1)
    >>> MarksOffset.from_json(offset.to_json()) == offset
    True
    """

    streams: Mapping[str, Admitted]
    token: str
    run: int = 0
    backlog: bool | None = None
    claims: bool = False

    @property
    def least(self) -> Released:
        """The mark with the least lower, which is that of the query; none before all have one."""
        marks = [admitted.mark for admitted in self.streams.values()]
        if any(mark.lower is None for mark in marks):
            return Released()
        return min(marks, key=lambda mark: mark.lower or 0)

    def to_json(self) -> Json:
        """Return the shape that Spark keeps; equal offsets give the same text."""
        streams = {name: self.streams[name].to_json() for name in sorted(self.streams)}
        json: Json = {"noted_marks": ",".join(streams), "token": self.token, "run": self.run}
        if self.backlog is not None:
            json["backlog"] = self.backlog
        if self.claims:
            json["claims"] = True
        return {**json, "streams": streams}

    @classmethod
    def from_json(cls, json: Json) -> MarksOffset:
        """Return the offset from what Spark kept."""
        admitted = {name: Admitted.from_json(each) for name, each in json["streams"].items()}
        flags = json.get("backlog"), json.get("claims", False)
        return cls(admitted, json["token"], json["run"], *flags)
