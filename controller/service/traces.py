"""What OpenTelemetry is told of group commits; the framework itself tells of the calls it answers.

Notes are answered in front of the framework, and many share one commit, so the span to look at is
the commit: how long it took and how much it wrote. Without the extra `otel` nothing is told.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from opentelemetry import trace

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

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


def commit(batch: Batch) -> AbstractContextManager[object]:
    """Return the span of a commit; it costs some microseconds where nobody listens."""
    written = {
        "noted_time.members": len(batch.members),
        "noted_time.marks": len(batch.marks),
        "noted_time.streams": len(batch.streams),
    }
    return _tracer.start_as_current_span("commit", attributes=written)
