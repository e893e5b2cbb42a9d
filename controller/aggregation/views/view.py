"""A domain of a stream at a moment, which views describe."""

from __future__ import annotations

from dataclasses import dataclass

from controller.aggregation.draft import Moment
from controller.aggregation.stream import StreamState
from noted_time.reading import MarkHistory
from noted_time.rules import Domain


@dataclass(frozen=True, slots=True)
class View:
    """A domain of a stream at a moment."""

    stream: StreamState
    now: Moment
    domain: str

    @classmethod
    def of(cls, stream: StreamState, now: Moment, domain: str | None) -> View:
        return cls(stream, now, stream.settings.domain_or_default(domain))

    @property
    def running(self) -> Domain:
        return self.stream.aggregator.domains[self.domain]

    @property
    def history(self) -> MarkHistory:
        return self.stream.history(self.domain)

    @property
    def served_ms(self) -> int:
        return self.stream.served_ms(self.now)

    @property
    def title(self) -> str:
        """The stream's name, with the domain if there are several."""
        name = self.stream.record.name
        return name if len(self.stream.settings.domains) == 1 else f"{name} ({self.domain})"
