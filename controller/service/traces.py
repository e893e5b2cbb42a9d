"""What OpenTelemetry is told of group commits; the framework itself tells of the calls it answers.

Notes are answered in front of the framework, and many share one commit, so the span to look at is
the commit: how long it took and how much it wrote. Without the extra `otel` nothing is told.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode

if TYPE_CHECKING:
    from controller.store.port import Batch

_tracer = trace.get_tracer("noted-time")


def can_be_sent() -> bool:
    """Whether the packages of the extra `otel` are there; where to send says the environment.

    There it is said who we are, too, and that a collector which is away keeps nobody waiting at the
    end, unless somebody said otherwise.
    """
    os.environ.setdefault("OTEL_SERVICE_NAME", "noted-time")
    os.environ.setdefault("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    return find_spec("opentelemetry.sdk") is not None


def commit(batch: Batch) -> Span:
    """Begin the span of a commit; it costs some microseconds where nobody listens."""
    span = _tracer.start_span("commit")
    if span.is_recording():
        span.set_attribute("noted_time.members", batch.records)
        span.set_attribute("noted_time.marks", len(batch.marks))
        span.set_attribute("noted_time.streams", len(batch.streams))
    return span


def end(span: Span, fault: Exception | None) -> None:
    """End the span of a commit, which may have failed."""
    if fault is not None:
        span.record_exception(fault)
        span.set_status(Status(StatusCode.ERROR, f"{type(fault).__name__}: {fault}"))
    span.end()
