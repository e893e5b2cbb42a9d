"""OpenTelemetry spans of group commits, because notes bypass the web framework's tracing.

Without the extra `otel`, nothing is exported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

from opentelemetry import trace

from controller.store.records import AppendedMark, ChangeSet, StoredMember, StreamRecord

_tracer = trace.get_tracer("noted-time")


def is_exporter_installed() -> bool:
    """Return whether the extra `otel` is installed.

    Also set a service name and a short timeout, unless the environment does.
    """
    os.environ.setdefault("OTEL_SERVICE_NAME", "noted-time")
    os.environ.setdefault("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    return find_spec("opentelemetry.sdk") is not None


@cache
def is_configured() -> bool:
    """Return whether spans are exported, as configured before the first request."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@contextmanager
def commit(batch: ChangeSet) -> Iterator[None]:
    if not is_configured():  # even an unused span takes 50 µs
        yield
        return
    with _tracer.start_as_current_span("commit") as span:
        if span.is_recording():
            span.set_attribute("noted_time.members", len(batch.list_puts(StoredMember)))
            span.set_attribute("noted_time.marks", len(batch.list_puts(AppendedMark)))
            span.set_attribute("noted_time.streams", len(batch.list_puts(StreamRecord)))
        yield
