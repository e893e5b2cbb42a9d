"""Routes for those who run the controller: liveness, readiness, metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from controller.api.deps import PROBLEMS, ControllerDep
from controller.api.replies import reply

router = APIRouter(tags=["health"])


@router.get("/healthz", responses={503: PROBLEMS[503]})
async def alive(controller: ControllerDep) -> Response:
    """Say that the process answers, and needs no new start."""
    controller.check_alive()
    return reply({"status": "ok"})


@router.get("/readyz", responses={503: PROBLEMS[503]})
async def ready(controller: ControllerDep) -> Response:
    """Say that the database answers and the streams are loaded."""
    await controller.check_ready()
    return reply({"status": "ready"})


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={status: PROBLEMS[status] for status in (401, 403)},
)
async def metrics(controller: ControllerDep) -> Response:
    """Return the metrics in Prometheus' text format."""
    # in a thread: the text of a thousand streams takes longer than a note may wait
    text = await asyncio.to_thread(generate_latest, controller.measure())
    return Response(text, media_type=CONTENT_TYPE_LATEST)
