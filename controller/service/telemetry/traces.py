"""OpenTelemetry spans of group commits; those of calls are the framework's own.

Notes are answered in front of the framework, and many share one commit, so the span to look at is
the commit: how long it took and how much it wrote. Without the extra `otel` there are no spans.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

from opentelemetry import trace

from controller.store.port import Transaction

_tracer = trace.get_tracer("noted-time")


def is_exporter_installed() -> bool:
    """Whether the packages of the extra `otel` are installed; the environment has the destination.

    Sets the service name, and a short time-out for a collector that is away when this process ends,
    unless the environment does.
    """
    os.environ.setdefault("OTEL_SERVICE_NAME", "noted-time")
    os.environ.setdefault("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    return find_spec("opentelemetry.sdk") is not None


@cache
def is_configured() -> bool:
    """Whether anything was configured to take spans, which is so before the first request."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@contextmanager
def commit(batch: Transaction) -> Iterator[None]:
    """Trace a commit, which may fail."""
    if not is_configured():  # a span for nobody takes 50 µs
        yield
        return
    with _tracer.start_as_current_span("commit") as span:
        if span.is_recording():
            span.set_attribute("noted_time.members", batch.records)
            span.set_attribute("noted_time.marks", len(batch.marks))
            span.set_attribute("noted_time.streams", len(batch.streams))
        yield
