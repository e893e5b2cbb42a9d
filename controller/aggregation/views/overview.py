"""The overview of streams, with problems first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from controller.aggregation.draft import Moment
from controller.aggregation.stream import StreamState
from controller.aggregation.views.conditions import assess_domain
from controller.aggregation.views.inspection import find_timeout_ms
from controller.aggregation.views.silence import classify_silence
from controller.aggregation.views.view import View
from controller.store.port import StreamSummary
from noted_time.answers import CONDITIONS, Condition, DomainRow, Members, Silence, StreamRow
from noted_time.reading import MarkHistory

Sort = Literal["trouble", "name"]

Rank = tuple[bool, int, int, str]

STEP_MS = 10_000  # finer steps would reorder rows all the time

LAGS_SHOWN = 30
LAG_EVERY_MS = 2 * 60_000


def rank_stream(stream: StreamState, now: Moment, sort: Sort) -> tuple[Rank, Condition]:
    name = stream.record.name
    silence = classify_silence(stream, now.wall)
    views = (View(stream, now, domain) for domain in stream.histories)
    assessments = [assess_domain(view, silence) for view in views]
    condition = min((assessment.condition for assessment in assessments), key=CONDITIONS.index)
    held_ms = max(
        (assessment.held_ms for assessment in assessments if assessment.condition == "held_back"),
        default=0,
    )
    number = stream.aggregator.domains.census.members["excluded"]
    rank = rank_by_name(name) if sort == "name" else _build_rank(name, held_ms, silence, number)
    return rank, condition


def rank_by_name(name: str) -> Rank:
    return False, 0, 0, name


def _build_rank(name: str, held_ms: int, silence: Silence | None, excluded_count: int) -> Rank:
    group = 2 if silence == "ended" else 0 if excluded_count else 1
    return silence != "missing", -(held_ms // STEP_MS), group, name


def build_stream_row(stream: StreamState, now: Moment) -> StreamRow:
    silence = classify_silence(stream, now.wall)
    name = stream.record.name
    views = (View(stream, now, domain) for domain in stream.histories)
    domains = tuple(_build_live_domain_row(view, silence) for view in views)
    members = Members(**stream.aggregator.domains.census.members)
    return StreamRow(
        name, stream.id, answered=True, writers=members, domains=domains, silence=silence
    )


def build_summary_row(summary: StreamSummary, wall_ms: int) -> StreamRow:
    record = summary.record
    lasts = {domain: summary.last_marks.get(domain) for domain in record.settings.domains}
    domains = (
        _build_domain_row(domain, MarkHistory([last] if last else ()), wall_ms)
        for domain, last in lasts.items()
    )
    if record.seal is not None:
        domains = (replace(row, decision="sealed", condition="sealed") for row in domains)
    return StreamRow(record.name, record.id, answered=False, writers=None, domains=tuple(domains))


def _build_domain_row(domain: str, history: MarkHistory, wall_ms: int) -> DomainRow:
    last = history.last
    return DomainRow(
        domain=domain,
        lower=last.lower if last else None,
        upper=last.upper if last else None,
        written_at=last.written_at if last else None,
        recent_lags_ms=_sample_lags(history, wall_ms),
    )


def _build_live_domain_row(view: View, silence: Silence | None) -> DomainRow:
    assessment = assess_domain(view, silence)
    longest = assessment.longest
    return replace(
        _build_domain_row(view.domain, view.history, view.now.wall),
        decision=assessment.decision,
        condition=assessment.condition,
        holding_back_count=len(view.running.find_holding_back()),
        held_back_by=longest.member.writer if longest else None,
        held_back_ms=assessment.held_ms if longest else None,
        times_out_in_ms=(
            find_timeout_ms(view.stream, longest, view.served_ms) if longest else None
        ),
        overtaking=assessment.overtaking,
    )


def _sample_lags(history: MarkHistory, wall_ms: int) -> tuple[int | None, ...]:
    moments: Sequence[int] = range(
        wall_ms - (LAGS_SHOWN - 1) * LAG_EVERY_MS, wall_ms + 1, LAG_EVERY_MS
    )
    return tuple(history.trend().lags(moments))
