"""What the operations pages mention: metrics, alerts, log events."""

import ast
import json
import re
import sys
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
LEVELS = ("debug", "info", "warning", "error", "exception", "critical")


def find_metrics(text: str) -> set[str]:
    """Return the names of metrics in it, parts of histograms under the histogram's."""
    return {PARTS.sub("", name) for name in NAME.findall(text)}


def filter_available(names: set[str]) -> set[str]:
    """Leave out the process's own if they are not available: they are read from /proc."""
    return {name for name in names if sys.platform == "linux" or not name.startswith("process_")}


def read_rules() -> list[dict[str, Any]]:
    """Return the alert rules."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def read_dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    return dict(json.loads(DASHBOARD.read_text()))


def list_queries() -> list[str]:
    """Return every query of the dashboard and of the alert rules."""
    board = read_dashboard()
    targets = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    chosen = [each.get("definition", "") for each in board["templating"]["list"]]
    return targets + chosen + [rule["expr"] for rule in read_rules()]


def find_labels(expression: str) -> set[str]:
    """Return the labels that a query selects, groups or matches by, but for a scrape's own."""
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
    selected = re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", expression)
    named = {label.strip() for group in grouped for label in group.split(",")} | set(selected)
    return named - {"job", "instance", "le"}


def read_labels() -> dict[str, set[str]]:
    """Return the labels of each metric as the page's tables have them, like `name{label,label}`."""
    section = MONITORING.read_text().partition("\n## Metrics\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_]+)(?:{([a-z,]+)})?` \|", section, re.MULTILINE)
    return {name: set(filter(None, labels.split(","))) for name, labels in rows}


def list_headings() -> set[str]:
    """Return the headings of the page on monitoring."""
    return set(re.findall(r"^#+ (.*)$", MONITORING.read_text(), re.MULTILINE))


def list_rows(heading: str) -> set[str]:
    """Return what the first column of the tables under a heading names, without backticks."""
    section = MONITORING.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([a-z_]+)", cell)}


def list_logged_events() -> set[str]:
    """Return the events that the controller's code logs, and the command that runs it."""
    tops = (ROOT / "controller", ROOT / "noted_time_cli" / "server")
    sources = (source for top in tops for source in top.rglob("*.py"))
    nodes = (node for source in sources for node in ast.walk(ast.parse(source.read_text())))
    return {event for node in nodes if _logs(node) for event in _events(node)}


def _logs(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in LEVELS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "log"
    )


def _events(call: ast.AST) -> set[str]:
    """Return the strings of a log call's first argument, which may be a conditional expression."""
    assert isinstance(call, ast.Call)
    first = call.args[0]
    choices = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
    return {str(each.value) for each in choices if isinstance(each, ast.Constant)}
