"""The pages on operations agree with a controller, its metrics and its traces."""

import gzip
import re
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from typer.core import TyperGroup
from typer.main import get_command

from docs.metrics import filled, helps
from noted_time_cli.app import app
from tests.operations.handbook import (
    BOARD,
    MONITORING,
    PAGE,
    QUERIES,
    RULES,
    TARGETS,
    find_labels,
    find_metrics,
    find_template_labels,
    list_logged_events,
    list_rows,
)
from tests.support.loopback import Loopback, give
from tests.support.processes import ServeProcess
from tests.support.scrapes import families, labels, samples

pytestmark = pytest.mark.acceptance


def test_every_query_names_a_metric() -> None:
    assert [e for e in QUERIES if not find_metrics(e) and not re.match(r"up\b", e)] == []


def test_exposed_metrics_are_those_of_the_page(scrape: str) -> None:
    """Metrics of the process are read from /proc, and exist on Linux only."""
    explained_names = list_rows("Metrics").keys()
    available = {
        e for e in explained_names if sys.platform == "linux" or not e.startswith("process_")
    }

    assert available == families(scrape).keys()


def test_metrics_are_explained_by_their_help(scrape: str) -> None:
    """`./run python docs/metrics.py` writes it into the page."""
    page = MONITORING.read_text()

    assert filled(page, helps(scrape)) == page
    assert filled(page.replace("Lower of the last mark", "…"), helps(scrape)) == page


def test_metrics_have_the_labels_of_the_page(scrape: str) -> None:
    shown_labels = labels(scrape)

    assert {name: list_rows("Metrics")[name] for name in shown_labels} == shown_labels


def test_every_label_is_on_the_metrics_of_its_query() -> None:
    """A query by a label of an older release would give no result."""
    explained_labels = list_rows("Metrics")
    used = [(query, find_labels(query)) for query in QUERIES]
    used += [(e["expr"], find_template_labels(e["annotations"]["summary"])) for e in RULES]
    used += [(e["expr"], find_template_labels(e["legendFormat"])) for e in TARGETS]

    for query, used_labels in used:
        known_labels = set[str]()
        for name in find_metrics(query):
            known_labels |= explained_labels.get(name, set())
        assert used_labels <= known_labels, query


def test_names_of_counters_end_in_total(scrape: str) -> None:
    counters = {name for name, kind in families(scrape).items() if kind == "counter"}

    assert counters == {name for name in families(scrape) if name.endswith("_total")}


def test_every_commit_is_measured(scrape: str) -> None:
    assert samples(scrape, "noted_time_commit_members_count") == {(): 2.0}


def test_every_alert_has_a_section_on_the_page() -> None:
    """The alert's runbook is the link to it."""
    runbooks = {rule["alert"]: rule["annotations"]["runbook"] for rule in RULES}

    assert runbooks == {
        name: f"docs/reference/monitoring.md#{name.lower()}"
        for name in re.findall(r"^#+ (NotedTime.*)$", MONITORING.read_text(), re.MULTILINE)
    }


def test_every_alert_has_a_severity_and_a_summary_with_labels() -> None:
    for rule in RULES:
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}, rule["alert"]
        assert "{{" in rule["annotations"]["summary"], rule["alert"]


def test_every_log_event_is_explained() -> None:
    assert list_rows("Log events").keys() == list_logged_events()


def test_every_setting_of_serve_is_listed() -> None:
    """Each setting but `--help` has a variable."""
    commands = get_command(app)
    assert isinstance(commands, TyperGroup)
    settings = commands.commands["serve"].params
    variables = {str(setting.envvar) for setting in settings if setting.name != "help"}

    assert set(re.findall(r"`(NOTED_TIME_[A-Z_]+)`", PAGE.read_text())) == variables


def test_dashboard_panels_have_unique_ids_and_places() -> None:
    """Otherwise Grafana does not import the dashboard as it is."""
    panels = BOARD["panels"]
    ids = {panel["id"] for panel in panels}
    columns = []
    cells = []
    for panel in panels:
        place = panel["gridPos"]
        for column in range(place["x"], place["x"] + place["w"]):
            columns.append(column)
            cells += [(column, place["y"] + row) for row in range(place["h"])]

    assert len(ids) == len(panels)
    assert len(set(cells)) == len(cells)
    assert max(columns) == 23
    assert {target["datasource"]["uid"] for target in TARGETS} == {"${datasource}"}
    variables = [variable["name"] for variable in BOARD["templating"]["list"]]
    assert variables == ["datasource", "job", "stream"]


# Traces


class Collector(Loopback):
    """A collector of OpenTelemetry that keeps the traces."""

    def __init__(self) -> None:
        super().__init__(self._keep)
        self._requests: list[ExportTraceServiceRequest] = []

    def _keep(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if request.path == "/v1/traces":
            self._requests.append(ExportTraceServiceRequest.FromString(body))
        give(request, 200, b"", {})

    def spans(self) -> dict[str, dict[str, Any]]:
        """Return the attributes of a span of each name, by service and name."""
        attributes_by_span = {}
        for request in self._requests:
            for resource in request.resource_spans:
                service = find_service(resource)
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        attributes = {a.key: a.value.int_value for a in span.attributes}
                        attributes_by_span[f"{service}: {span.name}"] = attributes
        return attributes_by_span


def find_service(resource: ResourceSpans) -> str:
    (service,) = [a for a in resource.resource.attributes if a.key == "service.name"]
    return str(service.value.string_value)


def test_calls_and_commits_are_traced(tmp_path: Path) -> None:
    """All spans are sent before the controller ends."""
    with (
        Collector() as collector,
        ServeProcess(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url).ready() as process,
    ):
        process.make("s")
        process.post("s", {"writer": "a"}, {"writer": "b"})
        process.get("s/marks")
        status, _ = process.stop()

    spans_by_name = collector.spans()
    assert (status, spans_by_name["noted-time: commit"]["noted_time.members"]) == (0, 2)
    assert "noted-time: GET /v1/streams/{stream}/marks" in spans_by_name


def test_controller_runs_without_its_trace_collector(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    with ServeProcess(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=nowhere).ready() as process:
        process.make("s")
        process.post("s", {"writer": "a"})
        status, _ = process.stop()

    assert status == 0
