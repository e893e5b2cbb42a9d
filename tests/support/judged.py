"""A domain without a controller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from noted_time.reading import UNKNOWN_STATUS, Coverage, LateReports, MarkHistory, MissingWriters
from noted_time.reading.coverage import Spells
from noted_time.values import VouchedBy, WriterStatus
from noted_time.verdict import Completeness, Latecomer, Requirement, build_answer, judge


@dataclass
class Domain:
    """The marks and writers of a domain."""

    history: MarkHistory
    missing: MissingWriters = field(default_factory=MissingWriters)
    late: LateReports = field(default_factory=LateReports)
    writers: Mapping[str, tuple[Spells, WriterStatus]] = field(default_factory=dict)
    expected: Sequence[str] = ()
    latecomers: Sequence[Latecomer] = ()
    first_lower: int | None = None
    forgotten_seq: int = 0
    stream: str = "orders"
    domain: str = "default"
    logs: Sequence[str] = ("log-1",)
    are_unix_ms: bool = False

    @property
    def coverage(self) -> Coverage:
        return Coverage(self.missing, self.late, self.first_lower)

    def find_writer_status(self, writer: str) -> tuple[Spells, WriterStatus]:
        return self.writers.get(writer, UNKNOWN_STATUS)

    def list_latecomers(self) -> Sequence[Latecomer]:
        return self.latecomers

    def find_reached_seq(self, position: Mapping[int, int]) -> int:
        return self.history.window(position).lower_seq or 0

    def find_unknown_segments(self, position: Mapping[int, int]) -> Sequence[int]:
        last = self.history.last
        return [segment for segment in position if last and segment not in last.cut.offsets]

    def list_holding_back(self, limit: int) -> tuple[Sequence[tuple[str, int]], int]:
        holders = [(writer, 5) for writer in self.writers][:1]
        return holders[:limit], len(holders)

    def suggest(self, writer: str) -> str:
        return f"correct {writer}"

    def answer(self, requirement: Requirement) -> Completeness:
        """Answer at the time 7; the first writer vouches."""
        verdict = judge(self, requirement)
        vouched_by = VouchedBy(1, (*self.writers,)[:1]) if verdict.mark else None
        return build_answer(self, requirement, verdict, vouched_by, now=7)


def ask(domain: Domain, **fields: Any) -> Completeness:  # noqa: ANN401 - fields of a requirement
    return domain.answer(Requirement(**fields))
