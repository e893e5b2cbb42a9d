"""What a query asks of the file log, as it travels in Spark's options."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from noted_time import BacklogPolicy
from noted_time.wing import INGESTION
from spark_integration.offsets import LogOffset
from spark_integration.time_range import ALL_TIMES, TimeRange

if TYPE_CHECKING:
    from spark_integration.ingested import Unstamped
    from spark_integration.offsets import Json
    from spark_integration.sealing import OnSeal
    from spark_integration.time_order import Order

OPTION = "query"
"""The one option: a `LogQuery` in JSON, since Spark's options know only strings."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What a query asks of the log.

    `columns` empty means all; `max_rows` 0 no limit per micro-batch; `cores` how many tasks are
    worth having at once; `order` decides which rows a limit lets in; `lag_ms` is how far the event
    time is behind that of the marks. While there is a `backlog`, the limit is `backlog_rows`.
    `keeps_late` says that rows tell whether they are late. `align` names the
    alignment whose member `align_as` the source is. `times` is the range that is asked for.
    `unstamped` is for rows of which it is not known when they came in.
    """

    root: str
    stream: str
    controller_url: str
    event_time: str
    domain: str | None = None
    columns: tuple[str, ...] = ()
    strict: bool = True
    max_rows: int = 0
    cores: int = 2
    order: Order = "share"
    lag_ms: int = 0
    backlog: BacklogPolicy | None = None
    backlog_rows: int = 0
    keeps_late: bool = False
    on_seal: OnSeal = "close"
    align: str | None = None
    align_as: str | None = None
    times: TimeRange = ALL_TIMES
    unstamped: Unstamped = "fail"

    def to_option(self) -> str:
        """Return the text that travels in Spark's options."""
        return json.dumps(asdict(self))

    @classmethod
    def from_option(cls, text: str) -> LogQuery:
        """Return the query from the text."""
        fields = json.loads(text)
        policy = fields["backlog"] and BacklogPolicy(**fields["backlog"])
        values = {"backlog": policy, "times": TimeRange(**fields["times"])}
        return cls(**{**fields, "columns": tuple(fields["columns"]), **values})

    @property
    def beginning(self) -> LogOffset:
        """The offset at which a new query begins."""
        root = os.path.abspath(self.root)  # noqa: PTH100 - a link may come to name another place
        return LogOffset(self.stream, root=root)

    def offset(self, json: Json) -> LogOffset:
        """Return an offset of this query's log; raises `Rejected` for one of another."""
        return LogOffset.from_json(json).going_on(self.beginning, self.domain_name)

    @property
    def is_ingestion(self) -> bool:
        """Whether the marks are those of ingestion, by which rows are stamped."""
        return self.domain == INGESTION

    @property
    def domain_name(self) -> str:
        """Under which name the offset log keeps the marks of this query's domain."""
        return self.domain or "default"
