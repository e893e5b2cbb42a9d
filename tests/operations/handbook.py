"""Metrics, alerts and log events that the pages on operations mention."""

import json
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.support.scrapes import PARTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guides" / "operations.md"
MONITORING = ROOT / "docs" / "reference" / "monitoring.md"
ALERTS = ROOT / "docs" / "reference" / "alerts.yml"
DASHBOARD = ROOT / "docs" / "reference" / "grafana-dashboard.json"

NAME = re.compile(r"\b(?:noted_time|process)_[a-z_]+\b")
SCRAPE_LABELS = {"job", "instance", "le"}
LOG_CALL = re.compile(
    r"\blog\.(?:debug|info|warning|error|exception|critical)\("
    r'\s*"(\w+)"(?: if [^,]* else "(\w+)")?'
)

BOARD: dict[str, Any] = json.loads(DASHBOARD.read_text())

RULES: list[dict[str, Any]] = []
for rule_group in yaml.safe_load(ALERTS.read_text())["groups"]:
    RULES += rule_group["rules"]

TARGETS: list[dict[str, Any]] = []
for board_panel in BOARD["panels"]:
    TARGETS += board_panel["targets"]

QUERIES: list[str] = [query["expr"] for query in TARGETS + RULES]
for board_variable in BOARD["templating"]["list"]:
    if board_variable.get("definition"):
        QUERIES.append(board_variable["definition"])


def find_metrics(text: str) -> set[str]:
    """Return the names of metrics in a text; parts of a histogram give the histogram."""
    return {PARTS.sub("", name) for name in NAME.findall(text)}


def find_labels(query: str) -> set[str]:
    """Return the labels by which a query selects, groups or matches, but not a scrape's own."""
    grouped_labels = re.findall(r"\b(?:by|on) \(([^)]*)\)", query)
    selected_labels = re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", query)
    return {*re.findall(r"\w+", " ".join(grouped_labels)), *selected_labels} - SCRAPE_LABELS


def find_template_labels(text: str) -> set[str]:
    """Return the labels that a summary or a legend fills in, but not a scrape's own."""
    words = {*re.findall(r"{{ ?([a-z]+) ?}}", text), *re.findall(r"\$labels\.([a-z]+)", text)}
    return words - SCRAPE_LABELS - {"value", "end"}


def list_rows(heading: str) -> dict[str, set[str]]:
    """Return the names in the tables below a heading, with labels, as in `name{label,label}`."""
    section = MONITORING.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    names = re.findall(r"`([a-z_]+)(?:{([a-z,]+)})?", " ".join(cells))
    return {name: set(labels.split(",")) - {""} for name, labels in names}


def list_logged_events() -> set[str]:
    """Return the events that the controller's code logs, and the command that runs it."""
    events = set[str]()
    for package in (ROOT / "controller", ROOT / "noted_time_cli" / "server"):
        for source in package.rglob("*.py"):
            for events_of_call in LOG_CALL.findall(source.read_text()):
                events.update(events_of_call)
    return events - {""}
