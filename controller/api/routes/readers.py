"""Routes for readers: marks, time windows, cuts and reader groups."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any
from urllib.parse import parse_qsl
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Depends, Path, Query, Response
from msgspec.structs import asdict, replace
from pydantic import BaseModel, Field, ValidationError

from controller.aggregation import operations
from controller.aggregation.owned_streams import NotOwner
from controller.aggregation.stream import StreamState
from controller.aggregation.views.new_reports import look_for_reports
from controller.aggregation.views.reader_lags import find_lags, find_reader_lags, locate_position
from controller.aggregation.views.view import View
from controller.aggregation.views.vouching import Vouching
from controller.api.gate.admitted import Call, StreamRequest
from controller.api.routes.deps import CallDep, ControllerDep, OrderDep, StreamName
from controller.api.wire import requests
from controller.api.wire.answers import build_group, build_segment_times, windows_of
from controller.api.wire.bodies import BodyOf
from controller.api.wire.encoding import page_of, reply
from controller.api.wire.problems import PROBLEM_RESPONSES, refusal_of
from controller.api.wire.responses import Answer
from controller.api.wire.schemas import declare
from controller.service.controller import Controller
from controller.service.long_reads import iterate_in_slices, tally_vouching
from controller.service.polls import NewMarks
from controller.service.telemetry import traces
from noted_time import BacklogPolicy, NotedTimeError, Rejected, TimeWindow
from noted_time.answers import (
    Completeness,
    CompleteWindowsPage,
    CutAnswer,
    GroupAnswer,
    GroupNowAnswer,
    GroupRow,
    GroupRowAnswer,
    GroupsPage,
    MarksAnswer,
    SegmentTimesAnswer,
)
from noted_time.coding import encode
from noted_time.reading import (
    CompleteWindow,
    MarkHistory,
    Tiling,
    find_answering_mark,
    find_changed_windows,
)
from noted_time.values import MAX_INT64, NAMES_PER_SENTENCE, WRITERS_NAMED, parse_zone
from noted_time.verdict import Requirement, build_answer, check, judge

router = APIRouter(prefix="/streams/{stream}", tags=["readers"], responses=PROBLEM_RESPONSES)
GROUP_PATH = "/reader-groups/{group}"
READER_PATH = GROUP_PATH + "/readers/{reader}"
WaitQuery = Annotated[int, Field(ge=0, le=30_000)]
KEPT_BYTES = 64 * 1024  # of a cached answer

# Many readers poll the same history, so each answer is encoded once.
_last_answers: WeakKeyDictionary[MarkHistory, tuple[object, bytes]] = WeakKeyDictionary()

PathName = Annotated[requests.NameParameter, Path()]


class MarksAsked(BaseModel, frozen=True):
    """The marks that a poll requests, and how long it waits for the first."""

    domain: requests.NameParameter | None = None
    after: Annotated[int, Field(ge=0, le=MAX_INT64)] = 0
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1000
    wait_ms: WaitQuery = 0


@router.get("/marks", responses=declare(MarksAnswer))
async def list_marks(
    controller: ControllerDep,
    call: CallDep,
    stream: StreamName,
    query: Annotated[MarksAsked, Query()],
) -> Response:
    """Return the marks after a seq. If there is none, wait up to `wait_ms` for the first.

    The answer has at most `limit` marks or 4 MiB. If more marks follow, `has_more` is true.
    """
    answer = await _poll_marks(controller, call._replace(stream=stream), query)
    return answer.to_response()


async def answer_marks(controller: Controller, request: StreamRequest) -> Answer | None:
    """Answer a poll, or return `None` if only FastAPI can, which takes ten times as long.

    It refuses a query that is not valid, and its requests are traced.
    """
    if traces.is_configured() or not request.is_to("GET", "marks"):
        return None
    query = _parse_marks_query(request.scope["query_string"])
    if query is None:
        return None
    try:
        return await _poll_marks(controller, request.call, query)
    except (NotedTimeError, NotOwner) as refusal:
        return refusal_of(refusal)


@lru_cache(maxsize=16)
def _parse_marks_query(query: bytes) -> MarksAsked | None:
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    values: dict[str, Any] = dict(pairs)
    if len(values) != len(pairs) or not values.keys() <= MarksAsked.model_fields.keys():
        return None
    try:
        return MarksAsked.model_validate(values)
    except ValidationError:
        return None


async def _poll_marks(controller: Controller, call: Call, query: MarksAsked) -> Answer:
    new_marks = await controller.polls.marks(
        call.stream, query.domain, after=query.after, wait_ms=query.wait_ms, is_admin=call.is_admin
    )
    return Answer.of(200, await _encode_marks_answer(new_marks, query))


async def _build_marks_answer(new_marks: NewMarks, query: MarksAsked) -> MarksAnswer:
    is_ahead = query.after > new_marks.history.last_seq
    marks = new_marks.history.following(query.after)
    page = await page_of(marks, query.limit)
    state = new_marks.stream
    domain = state.settings.domain_or_default(query.domain)
    return MarksAnswer(
        stream_id=state.id,
        scale_events=len(state.scale_events),
        sealed=state.final_cut is not None,
        final_cut=state.final_cut,
        quiet=new_marks.quiet,
        marks=page.items,
        has_more=page.has_more,
        ahead_of_stream=is_ahead,
        first_lower=state.record.first_lowers.get(domain),
        logs=state.record.logs,
    )


async def _encode_marks_answer(new_marks: NewMarks, query: MarksAsked) -> bytes:
    state = new_marks.stream
    history = new_marks.history
    content = history.first_seq, history.last_seq, new_marks.quiet
    now = len(state.scale_events), state.final_cut, state.record.logs
    key = query.after, query.limit, content, now
    last_answer = _last_answers.get(history)
    if last_answer is None or last_answer[0] != key:
        last_answer = key, encode(await _build_marks_answer(new_marks, query))
        if len(last_answer[1]) <= KEPT_BYTES:
            _last_answers[history] = last_answer
    return last_answer[1]


WindowDep = Annotated[requests.WindowRequest, Depends(BodyOf(requests.WindowRequest))]


@router.post("/time-window", responses=declare(TimeWindow))
async def get_time_window(
    controller: ControllerDep, stream: StreamName, body: WindowDep
) -> Response:
    """Return the time window of a reader's position."""
    state = controller.stream(stream)
    return reply(state.window(body.position, body.domain)._asdict())


@router.post("/segment-times", responses=declare(SegmentTimesAnswer))
async def get_segment_times(
    controller: ControllerDep, stream: StreamName, body: WindowDep
) -> Response:
    """Return how far a position is in each segment, in time, and the order to read segments in."""
    times = locate_position(controller.stream(stream), body.position, body.domain)
    return reply(build_segment_times(times))


@router.post("/completeness", responses=declare(Completeness))
async def judge_completeness(
    controller: ControllerDep,
    call: CallDep,
    stream: StreamName,
    requirement: Annotated[Requirement, Depends(BodyOf(requests.CompletenessRequest))],
) -> Response:
    """Return whether the stream, or a reader of it, is complete to a time, and what it lacks."""
    if requirement.wait_ms and requirement.to is not None:
        await controller.polls.wait_for_verdict(
            stream, requirement, requirement.to, is_admin=call.is_admin
        )
    vouching = Vouching(View.of(controller.stream(stream), controller.now, requirement.domain))
    verdict = judge(vouching, requirement)
    vouched_by = None
    if verdict.mark is not None:
        (vouched_by,) = await tally_vouching(vouching, [(verdict.mark.seq, verdict.time or 0)])
    return reply(build_answer(vouching, requirement, verdict, vouched_by, controller.now_ms))


class CutAsked(BaseModel, frozen=True):
    """A time."""

    complete_to: requests.Int64Parameter
    from_time: requests.Int64Parameter | None = None
    domain: requests.NameParameter | None = None
    wait_ms: WaitQuery = 0


@router.get("/cut", responses=declare(CutAnswer))
async def get_cut(
    controller: ControllerDep,
    call: CallDep,
    stream: StreamName,
    query: Annotated[CutAsked, Query()],
) -> Response:
    """Return the first mark with lower >= `complete_to`. All rows below it are below its cut.

    Wait up to `wait_ms` for the mark. Below the first mark of a sealed stream, return the last.
    `late_writers` are those whose late rows may have times from `from_time` to `complete_to`, by
    default all times below `complete_to`.
    """
    complete_to = query.complete_to
    from_time = query.from_time
    domain = query.domain
    if from_time is not None and from_time >= complete_to:
        raise Rejected(f"`from_time` {from_time} is not before `complete_to` {complete_to}")
    question = Requirement(to=complete_to, domain=domain, wait_ms=query.wait_ms)
    if query.wait_ms:
        is_admin = call.is_admin
        await controller.polls.wait_for_verdict(stream, question, complete_to, is_admin=is_admin)
    vouching = Vouching(View.of(controller.stream(stream), controller.now, domain))
    check(vouching, question)
    coverage = vouching.coverage
    history = vouching.history
    mark = find_answering_mark(history, coverage, complete_to)
    (vouched_by,) = await tally_vouching(vouching, [(mark.seq, complete_to)])
    answer = CutAnswer(
        **asdict(
            coverage.assess_mark(
                mark, from_time, complete_to, has_all_rows=history.has_all_rows(mark.seq)
            )
        ),
        **asdict(mark),
        has_position=bool(mark.cut.offsets),
        first_lower=coverage.first_lower,
        vouched=vouched_by,
        logs=vouching.logs,
    )
    return reply(answer)


class WindowsAsked(BaseModel, frozen=True):
    """The complete windows of a domain, and how long a poll waits for the first."""

    domain: requests.NameParameter | None = None
    size_ms: Annotated[int, Field(ge=1, le=MAX_INT64)] = 3_600_000
    origin: requests.Int64Parameter = 0
    after: requests.Int64Parameter | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    wait_ms: WaitQuery = 0
    changed_since: requests.Int64Parameter | None = None
    zone: Annotated[str, Field(max_length=64)] = "UTC"


@router.get("/windows", responses=declare(CompleteWindowsPage))
async def list_complete_windows(
    controller: ControllerDep,
    call: CallDep,
    stream: StreamName,
    query: Annotated[WindowsAsked, Query()],
) -> Response:
    """Return the complete windows that end after a time, or wait up to `wait_ms` for the first.

    One window starts at `origin`. Windows are on the clock of a `zone`, such as Europe/Berlin, so
    a day lasts 23 to 25 hours; `origin` is then in ms after its 1970-01-01T00:00. A size is refused
    if its windows would overlap in the zone. The answer has at most `limit` windows or 4 MiB. If
    more windows follow, `has_more` is true.

    With `changed_since` (Unix ms of the controller's clock), only windows with rows that were
    reported late since are returned, at once. `late_writers` then has only these rows. Reports
    without a least time are in no window: `writers_without_least` lists their writers. `looked_at`
    is the `changed_since` of the next request.
    """
    tiling = Tiling(query.size_ms, query.origin, parse_zone(query.zone))
    if query.changed_since is not None:
        if query.wait_ms:
            raise Rejected("`wait_ms` has no effect with `changed_since`: leave one out")
        return reply(
            await _build_changed_page(controller, stream, query, tiling, query.changed_since)
        )
    state, windows = await controller.polls.windows(
        stream,
        query.domain,
        tiling,
        after=query.after,
        limit=query.limit + 1,
        wait_ms=query.wait_ms,
        is_admin=call.is_admin,
    )
    view = View.of(state, controller.now, query.domain)
    return reply(await _build_page(view, windows, query.limit, query.after))


async def _build_changed_page(
    controller: Controller, stream: str, query: WindowsAsked, tiling: Tiling, changed_since: int
) -> CompleteWindowsPage:
    """Return the windows with rows that were reported late since `changed_since` (Unix ms)."""
    state = controller.stream(stream)
    coverage = state.coverage(query.domain)
    view = View.of(state, controller.now, query.domain)
    look = look_for_reports(view, changed_since, controller.stored_ms(state))
    since_served_ms = look.since_served_ms
    changed_windows = find_changed_windows(
        state.history(query.domain), tiling, coverage, since_served_ms, after=query.after
    )
    page_windows = islice(changed_windows, query.limit + 1)
    without_least = coverage.late_reports.writers_without_least(since_served_ms)
    has_all_reports = coverage.late_reports.has_all_since(since_served_ms)
    page = await _build_page(view, page_windows, query.limit, query.after)
    return replace(
        page,
        changes_are_known=look.is_time_known and has_all_reports and not without_least,
        writers_without_least=tuple(without_least[:WRITERS_NAMED]),
        looked_at=look.looked_at,
    )


async def _build_page(
    view: View, found_windows: Iterable[CompleteWindow], limit: int, after: int | None
) -> CompleteWindowsPage:
    windows = [window async for window in iterate_in_slices(found_windows)]
    vouching = Vouching(view)
    vouchings = await tally_vouching(vouching, [(window.seq, window.end) for window in windows])
    rows = (
        replace(window, vouched=vouched_by)
        for window, vouched_by in zip(windows, vouchings, strict=True)
    )
    page = await page_of(rows, limit)
    longest, count = vouching.list_holding_back(NAMES_PER_SENTENCE)
    return CompleteWindowsPage(
        stream_id=view.stream.id,
        windows=page.items,
        next=page.last.end if page.last else after,
        has_more=page.has_more,
        logs=view.stream.record.logs,
        waiting_for=tuple(writer for writer, _ in longest),
        holding_back_count=count,
        sealed=view.history.is_whole,
    )


@router.put(READER_PATH, responses=declare(GroupAnswer))
async def report_position(  # noqa: PLR0913 - one parameter for each of the request's
    controller: ControllerDep,
    call: CallDep,
    stream: StreamName,
    group: PathName,
    reader: PathName,
    *,
    body: Annotated[requests.ReaderReport, Depends(BodyOf(requests.ReaderReport))],
) -> Response:
    """Report the position of a reader of the group."""
    state, readers = await controller.report(
        stream, group, reader, body.position, has_backlog=body.backlog, is_admin=call.is_admin
    )
    return reply(build_group(state, readers, await controller.backlog(stream, group)))


@router.post(READER_PATH + "/offline", responses=declare(GroupAnswer))
async def take_reader_offline(
    controller: ControllerDep,
    stream: StreamName,
    group: PathName,
    reader: PathName,
    body: Annotated[requests.ReaderLeave, Depends(BodyOf(requests.ReaderLeave))],
) -> Response:
    """Move the reader's segments back to this position, and stop counting the reader."""
    report = group, reader, body.position
    state, readers = await controller.change(stream, operations.take_offline, *report)
    return reply(build_group(state, readers, await controller.backlog(stream, group)))


@router.get("/reader-groups", responses=declare(GroupsPage))
async def list_reader_groups(
    controller: ControllerDep,
    stream: StreamName,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the reader groups, sorted by name, in pages."""
    state = controller.stream(stream)
    now = controller.now
    rows = state.groups.page(after, limit + 1, unix_shift=state.unix_shift(now))
    groups = [_build_group_row(state, row) async for row in iterate_in_slices(rows[:limit])]
    next_page = rows[limit - 1].group if len(rows) > limit else None
    return reply(GroupsPage(now=now.wall, groups=groups, next=next_page))


def _build_group_row(state: StreamState, row: GroupRow) -> GroupRowAnswer:
    group = state.groups[row.group]
    lags = find_lags(state, state.windows(group.position))
    return GroupRowAnswer(**asdict(row), windows=windows_of(state, group), lag=lags)


@router.get(GROUP_PATH, responses=declare(GroupNowAnswer))
async def get_reader_group(
    controller: ControllerDep, stream: StreamName, group: PathName
) -> Response:
    """Return the group's position, readers and windows, and how far behind it is, by domain.

    A reader's `rank` is the number of its segments times its share of the largest `lag`.
    """
    return await _answer_group(controller, stream, group)


@router.put(GROUP_PATH, responses=declare(GroupNowAnswer))
async def change_reader_group(
    controller: ControllerDep,
    order: OrderDep,
    stream: StreamName,
    group: PathName,
    body: Annotated[requests.GroupChanges, Depends(BodyOf(requests.GroupChanges))],
) -> Response:
    """Set when the group has a backlog. A group that does not exist is created."""
    policy = None if body.backlog is None else BacklogPolicy(**asdict(body.backlog))
    limits = controller.limits.readers
    await controller.change(
        stream, operations.set_backlog_policy, order, group, policy, limits=limits
    )
    return await _answer_group(controller, stream, group)


async def _answer_group(controller: Controller, stream: str, group: str) -> Response:
    backlog = await controller.backlog(stream, group)
    state = controller.stream(stream)
    readers = state.groups[group]
    lags = {
        domain: find_reader_lags(state, readers, domain)
        async for domain in iterate_in_slices([*state.histories])
    }
    answer = build_group(
        state,
        readers,
        backlog,
        GroupNowAnswer,
        now=controller.now_ms,
        lag=find_lags(state, state.windows(readers.position)),
        reader_lags=lags,
        backlog_policy=backlog.policy,
    )
    return reply(answer)


@router.delete(GROUP_PATH, status_code=204)
async def remove_reader_group(
    controller: ControllerDep, stream: StreamName, group: PathName
) -> Response:
    """Remove the group and its position. A later report creates a new group."""
    await controller.remove_group(stream, group)
    return Response(status_code=204)
