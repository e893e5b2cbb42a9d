"""What the sources write into a query's offset log, and read back from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeGuard

from noted_time import Rejected
from noted_time.client import position_from_wire, position_to_wire
from spark_integration.time_range import ALL_TIMES, TimeRange
from spark_integration.watermark import is_watermark

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Released:
    """The last mark that was let into a query: `seq` in the stream of creation id `stream_id`.

    The lower itself (ms) is kept too, so that a replayed batch needs no controller; `None` before
    the first mark, and if an offset log names one that Spark cannot express. `sealed`: the end
    of a sealed stream was reached, and its lower is the end of Spark's time.
    """

    stream_id: str = ""
    seq: int = 0
    lower: int | None = None
    sealed: bool = False


@dataclass(frozen=True, slots=True)
class LogOffset:
    """How far a query has read the file log, and which mark it has let in per domain.

    `root` is the log's absolute path, empty in offsets of earlier versions. `run` counts the starts
    of the query after which its lower was stated again. `backlog` is what was found when the batch
    was planned, `None` if nothing was known or asked. `times` is the range of event times that
    the query has, and `begin` where its first batch began for that.

    >>> offset = LogOffset("flights", segments={0: 12}, marks={"default": Released("a", 3, 99)})
    >>> offset.to_json()["segments"]
    {'0': 12}
    >>> LogOffset.from_json(offset.to_json()) == offset
    True
    """

    stream: str
    run: int = 0
    segments: Mapping[int, int] = field(default_factory=dict)
    marks: Mapping[str, Released] = field(default_factory=dict)
    backlog: bool | None = None
    times: TimeRange = ALL_TIMES
    begin: Mapping[int, int] = field(default_factory=dict)
    root: str = ""

    def going_on(self, new: LogOffset, domain: str) -> LogOffset:
        """Return the offset for a query that would begin at `new` and continues from here.

        Raises `Rejected` if that reads another log, or waits for the marks of another domain.

        >>> offset = LogOffset("flights", marks={"default": Released()}, root="/log")
        >>> offset.going_on(LogOffset("landings", root="/log"), "default")
        Traceback (most recent call last):
            ...
        noted_time.Rejected: the checkpoint is of stream 'flights', domain 'default', ...
        """
        recorded = next((name for name in self.marks if is_domain(name)), domain)
        before = self.stream, recorded, self.root or new.root
        asked = new.stream, domain, new.root
        if before != asked:
            was, is_asked = (
                "stream {!r}, domain {!r}, under {}".format(*of) for of in (before, asked)
            )
            raise Rejected(
                f"the checkpoint is of {was}, and the query reads {is_asked}: read the former, or "
                "start a query with a new checkpoint"
            )
        return replace(self, root=new.root)

    def named(self, domain: str) -> LogOffset:
        """Return the offset with the marks of its domain under another name of it.

        >>> offset = LogOffset("flights", marks={"default": Released("a", 3, 99)})
        >>> offset.named("ship_time").released("ship_time").seq
        3
        """
        marks = {domain if is_domain(name) else name: mark for name, mark in self.marks.items()}
        return replace(self, marks=marks)

    def released(self, domain: str) -> Released:
        """Return the last mark of `domain` that was let in."""
        return self.marks.get(domain, Released())

    def letting_in(self, domain: str, released: Released) -> LogOffset:
        """Return the offset with another last mark of `domain`."""
        return replace(self, marks={**self.marks, domain: released})

    def to_json(self) -> Json:
        """Return the shape that Spark keeps; equal offsets give the same text."""
        json: Json = {
            "noted_log": self.stream,
            "run": self.run,
            "segments": position_to_wire(self.segments),
            "marks": {domain: _to_json(mark) for domain, mark in sorted(self.marks.items())},
        }
        if self.root:
            json["root"] = self.root
        # without a range the shape stays the one that earlier versions read
        if self.times != ALL_TIMES:
            json["times"] = {**asdict(self.times), "begin": position_to_wire(self.begin)}
        return json if self.backlog is None else {**json, "backlog": self.backlog}

    @classmethod
    def from_json(cls, json: Json) -> LogOffset:
        """Return the offset from what Spark kept."""
        times = dict(json.get("times", {}))
        begin = position_from_wire(times.pop("begin", {}))
        return cls(
            stream=json["noted_log"],
            run=json["run"],
            segments=position_from_wire(json["segments"]),
            marks={domain: _from_json(mark) for domain, mark in json["marks"].items()},
            backlog=json.get("backlog"),
            times=TimeRange(**times),
            begin=begin,
            root=json.get("root", ""),
        )


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
    """

    mark: Released = field(default_factory=Released)
    topic_id: str | None = None
    ahead: tuple[MarkAhead, ...] = ()

    def to_json(self) -> Json:
        """Return the shape that Spark keeps."""
        json: Json = {"mark": _to_json(self.mark)}
        if self.topic_id is not None:
            json["topic_id"] = self.topic_id
        if self.ahead:
            each = ({**asdict(a), "needs": position_to_wire(a.needs)} for a in self.ahead)
            json["ahead"] = list(each)
        return json

    @classmethod
    def from_json(cls, json: Json) -> Admitted:
        """Return it from what Spark kept."""
        ahead = (
            MarkAhead(**{**each, "needs": position_from_wire(each["needs"])})
            for each in json.get("ahead", ())
        )
        return cls(_from_json(json["mark"]), json.get("topic_id"), tuple(ahead))


@dataclass(frozen=True, slots=True)
class MarksOffset:
    """Which marks a query has let in beside another source, of one stream or of several.

    `token` tells the source apart from every other in the query's offset log; `run` counts the
    starts of the query.

    >>> offset = MarksOffset({"flights": Admitted(Released("a", 3, 99))}, "5b1e", run=1)
    >>> MarksOffset.from_json(offset.to_json()) == offset
    True
    """

    streams: Mapping[str, Admitted]
    token: str
    run: int = 0

    @property
    def least(self) -> Released:
        """The mark with the least lower, which is that of the query; none before all have one."""
        marks = [admitted.mark for admitted in self.streams.values()]
        if any(mark.lower is None for mark in marks):
            return Released()
        return min(marks, key=lambda mark: mark.lower or 0)

    def to_json(self) -> Json:
        """Return the shape that Spark keeps; equal offsets give the same text."""
        each = {name: self.streams[name].to_json() for name in sorted(self.streams)}
        json: Json = {"noted_marks": ",".join(each), "token": self.token, "run": self.run}
        # one stream has the shape that earlier versions read
        return {**json, **(each.popitem()[1] if len(each) == 1 else {"streams": each})}

    @classmethod
    def from_json(cls, json: Json) -> MarksOffset:
        """Return the offset from what Spark kept."""
        streams = json.get("streams") or {json["noted_marks"]: json}
        admitted = {name: Admitted.from_json(each) for name, each in streams.items()}
        return cls(admitted, json["token"], json["run"])


def is_of_marks(offset: object) -> TypeGuard[Json]:
    """Whether a source's offset is one of a `MarksOffset`.

    >>> offset = MarksOffset({"flights": Admitted()}, "5b1e")
    >>> is_of_marks(offset.to_json()), is_of_marks({"flights": {"0": 1}})
    (True, False)
    """
    return isinstance(offset, dict) and "noted_marks" in offset


def is_of_log(offset: object) -> TypeGuard[Json]:
    """Whether a source's offset is one of a `LogOffset`.

    >>> is_of_log(LogOffset("flights").to_json()), is_of_log({"flights": {"0": 1}})
    (True, False)
    """
    return isinstance(offset, dict) and "noted_log" in offset


def is_domain(name: str) -> bool:
    """Whether a name under which an offset keeps marks is a domain's, which have no slash.

    >>> is_domain("default"), is_domain("ingestion/first")
    (True, False)
    """
    return "/" not in name


def _to_json(released: Released) -> Json:
    json = {"stream_id": released.stream_id, "seq": released.seq, "lower": released.lower}
    return {**json, "sealed": True} if released.sealed else json


def _from_json(json: Json) -> Released:
    released = Released(**json)
    if released.lower is None or is_watermark(released.lower):
        return released
    return replace(released, lower=None)
