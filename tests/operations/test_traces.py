"""What a collector of OpenTelemetry receives, if one is configured."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.processes import ServeProcess

pytestmark = pytest.mark.acceptance


class Collector(ThreadingHTTPServer):
    """Takes in what is sent over HTTP, and keeps the traces."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Sent)
        self.requests: list[ExportTraceServiceRequest] = []

    @property
    def url(self) -> str:
        """The URL to send to."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self) -> dict[str, dict[str, Any]]:
        """Return the attributes of a span of each name, by service and name."""
        return {
            f"{service.value.string_value}: {span.name}": {
                each.key: each.value.int_value for each in span.attributes
            }
            for request in self.requests
            for resource in request.resource_spans
            for service in resource.resource.attributes
            if service.key == "service.name"
            for scope in resource.scope_spans
            for span in scope.spans
        }


class Sent(BaseHTTPRequestHandler):
    """One request of an exporter."""

    server: Collector

    def do_POST(self) -> None:
        """Take it, whatever it is."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path == "/v1/traces":
            self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector on a port of the loopback."""
    with Collector() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def test_calls_and_commits_are_traced(tmp_path: Path, collector: Collector) -> None:
    """By the time the controller has stopped; a commit has the number of its rows."""
    with ServeProcess(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url).ready() as process:
        stream = f"{process.url}/v1/streams/s"
        httpx.put(stream)
        httpx.post(f"{stream}/notes", json={"notes": [{"writer": "a"}, {"writer": "b"}]})
        httpx.get(f"{stream}/marks")
        status, _ = process.stop()

    traced = collector.spans()
    assert (status, traced["noted-time: commit"]["noted_time.members"]) == (0, 2)
    assert "noted-time: GET /v1/streams/{stream}/marks" in traced


def test_a_missing_collector_does_no_harm(tmp_path: Path) -> None:
    """Notes are taken, and the controller stops by itself."""
    nowhere = "http://127.0.0.1:9"
    with ServeProcess(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=nowhere).ready() as process:
        httpx.put(f"{process.url}/v1/streams/s")
        noted = httpx.post(f"{process.url}/v1/streams/s/notes", json={"notes": [{"writer": "a"}]})
        status, _ = process.stop()

    assert (noted.status_code, status) == (200, 0)
