"""The handbook's figures as a controller shows them, and what a collector of traces receives."""

import gzip
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from typer.core import TyperGroup
from typer.main import get_command

from docs.metrics import filled, helps
from noted_time_cli.app import app
from tests.operations.handbook import (
    MONITORING,
    PAGE,
    filter_available,
    find_labels,
    find_metrics,
    list_headings,
    list_logged_events,
    list_queries,
    list_rows,
    read_dashboard,
    read_labels,
    read_rules,
)
from tests.support.processes import ServeProcess
from tests.support.scrapes import families, labels, samples

pytestmark = pytest.mark.acceptance


def test_every_query_names_a_metric() -> None:
    """One that names none would show nothing for ever."""
    idle = [e for e in list_queries() if e and not find_metrics(e) and not re.match(r"up\b", e)]

    assert idle == []


def test_every_metric_exposed_is_explained(scrape: str) -> None:
    """In the page's tables, which explain nothing else."""
    assert filter_available(list_rows("Metrics")) == families(scrape).keys()


def test_metrics_are_explained_by_their_help(scrape: str) -> None:
    """`./run python docs/metrics.py` writes it into the page."""
    page = MONITORING.read_text()

    assert filled(page, helps(scrape)) == page
    assert filled(page.replace("Lower of the last mark", "…"), helps(scrape)) == page


def test_metrics_have_the_labels_explained(scrape: str) -> None:
    """Those of which this scrape has samples."""
    shown = labels(scrape)

    assert {name: read_labels()[name] for name in shown} == shown


def test_every_queried_label_is_on_its_metrics() -> None:
    """A query for another, such as one of an older release, would show nothing for ever."""
    explained = read_labels()
    asked = {e: find_labels(e) for e in list_queries()}
    known = {e: set[str]().union(*(explained[name] for name in find_metrics(e))) for e in asked}

    assert {e: found for e in asked if (found := asked[e] - known[e])} == {}


def test_every_label_in_a_text_is_on_its_query() -> None:
    """Of the summaries of alerts and the legends of panels."""
    explained = read_labels()
    texts = [(rule["expr"], rule["annotations"]["summary"]) for rule in read_rules()]
    panels = [target for panel in read_dashboard()["panels"] for target in panel["targets"]]
    texts += [(target["expr"], target["legendFormat"]) for target in panels]
    used = [
        (
            text,
            label,
            set[str]().union(*(explained.get(name, set()) for name in find_metrics(query))),
        )
        for query, text in texts
        for label in re.findall(r"{{ ?(?:\$labels\.)?([a-z]+) ?}}", text)
    ]

    assert [(t, label) for t, label, on in used if label not in on | {"job", "instance"}] == []


def test_names_follow_the_conventions(scrape: str) -> None:
    """Counters end in `_total`, and nothing else does."""
    counters = {name for name, kind in families(scrape).items() if kind == "counter"}

    assert counters == {name for name in families(scrape) if name.endswith("_total")}


def test_metrics_count_notes_marks_and_commits(scrape: str) -> None:
    """Two commits with one note and one mark, and it serves."""
    names = ("notes_total", "marks_total", "commit_members_count")
    shown = [samples(scrape, f"noted_time_{name}") for name in names]

    assert (shown, samples(scrape, "noted_time_ready")) == (
        [{("accepted",): 1.0}, {("default", "s"): 1.0}, {(): 2.0}],
        {(): 1.0},
    )


def test_every_alert_has_a_section_with_what_to_do() -> None:
    """To which its runbook leads."""
    runbooks = {rule["alert"]: rule["annotations"]["runbook"] for rule in read_rules()}

    assert runbooks == {
        name: f"docs/reference/monitoring.md#{name.lower()}"
        for name in list_headings()
        if name.startswith("NotedTime")
    }


def test_every_alert_has_a_severity() -> None:
    """With a summary that names what it is about."""
    missing = [
        rule["alert"]
        for rule in read_rules()
        if rule["labels"]["severity"] not in {"info", "warning", "critical"}
        or "{{" not in rule["annotations"]["summary"]
    ]

    assert missing == []


def test_every_log_event_is_explained() -> None:
    """And no other."""
    assert list_rows("Log events") == list_logged_events()


def test_every_setting_of_serve_is_listed() -> None:
    """Those that have a variable, which is all but `--help`."""
    commands = get_command(app)
    assert isinstance(commands, TyperGroup)
    settings = commands.commands["serve"].params
    variables = {str(setting.envvar) for setting in settings if setting.name != "help"}

    assert set(re.findall(r"`(NOTED_TIME_[A-Z_]+)`", PAGE.read_text())) == variables


def test_dashboard_panels_have_unique_ids_and_places() -> None:
    """So that Grafana imports the dashboard as it is."""
    board = read_dashboard()
    panels = board["panels"]
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    sources = {target["datasource"]["uid"] for panel in panels for target in panel["targets"]}

    assert (
        len({panel["id"] for panel in panels}),
        len(set(cells)),
        max(x for x, _ in cells),
        sources,
        [each["name"] for each in board["templating"]["list"]],
    ) == (len(panels), len(cells), 23, {"${datasource}"}, ["datasource", "job", "stream"])


# What a collector of OpenTelemetry receives, if one is configured


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


def test_controller_runs_without_its_trace_collector(tmp_path: Path) -> None:
    """Notes are taken, and the controller stops by itself."""
    nowhere = "http://127.0.0.1:9"
    with ServeProcess(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=nowhere).ready() as process:
        httpx.put(f"{process.url}/v1/streams/s")
        noted = httpx.post(f"{process.url}/v1/streams/s/notes", json={"notes": [{"writer": "a"}]})
        status, _ = process.stop()

    assert (noted.status_code, status) == (200, 0)
