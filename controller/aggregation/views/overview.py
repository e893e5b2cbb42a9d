"""The overview of streams, with problems first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

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

STEP_MS = 10_000  # finer steps would reorder rows all the time

# in this order, streams that are held back for equally long
EXCLUDED_GROUP = 0
USUAL_GROUP = 1
LAST_GROUP = 2

LAGS_SHOWN = 30
LAG_EVERY_MS = 2 * 60_000


class Rank(NamedTuple):
    """The place of a stream in the list: the lowest comes first."""

    is_not_missing: bool
    negative_steps: int
    group: int
    name: str


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
    excluded_count = stream.aggregator.domains.census.members["excluded"]
    rank = (
        rank_by_name(name)
        if sort == "name"
        else _build_rank(name, held_ms, silence, excluded_count)
    )
    return rank, condition


def rank_by_name(name: str) -> Rank:
    return Rank(is_not_missing=False, negative_steps=0, group=0, name=name)


def _build_rank(name: str, held_ms: int, silence: Silence | None, excluded_count: int) -> Rank:
    if silence == "ended":
        group = LAST_GROUP
    elif excluded_count:
        group = EXCLUDED_GROUP
    else:
        group = USUAL_GROUP
    return Rank(silence != "missing", -(held_ms // STEP_MS), group, name)


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
    domains: list[DomainRow] = []
    for domain in record.settings.domains:
        last = summary.last_marks.get(domain)
        history = MarkHistory() if last is None else MarkHistory([last])
        row = _build_domain_row(domain, history, wall_ms)
        if record.seal is not None:
            row = replace(row, decision="sealed", condition="sealed")
        domains.append(row)
    return StreamRow(record.name, record.id, answered=False, writers=None, domains=tuple(domains))


def _build_domain_row(domain: str, history: MarkHistory, wall_ms: int) -> DomainRow:
    row = DomainRow(
        domain=domain,
        lower=None,
        upper=None,
        written_at=None,
        recent_lags_ms=_sample_lags(history, wall_ms),
    )
    last_mark = history.last
    if last_mark is None:
        return row
    return replace(
        row, lower=last_mark.lower, upper=last_mark.upper, written_at=last_mark.written_at
    )


def _build_live_domain_row(view: View, silence: Silence | None) -> DomainRow:
    assessment = assess_domain(view, silence)
    row = replace(
        _build_domain_row(view.domain, view.history, view.now.wall),
        decision=assessment.decision,
        condition=assessment.condition,
        holding_back_count=len(view.running.find_holding_back()),
        overtaking=assessment.overtaking,
    )
    longest = assessment.longest
    if longest is None:
        return row
    return replace(
        row,
        held_back_by=longest.member.writer,
        held_back_ms=assessment.held_ms,
        times_out_in_ms=find_timeout_ms(view.stream, longest, view.served_ms),
    )


def _sample_lags(history: MarkHistory, wall_ms: int) -> tuple[int | None, ...]:
    moments: Sequence[int] = range(
        wall_ms - (LAGS_SHOWN - 1) * LAG_EVERY_MS, wall_ms + 1, LAG_EVERY_MS
    )
    return tuple(history.trend().lags(moments))
