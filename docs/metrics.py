"""Write the help of each metric into the page on monitoring: `./run python docs/metrics.py`.

The page has a row for each metric, with its labels. This fills in the second column.
"""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import generate_latest

from controller.aggregation.draft import Moment
from controller.aggregation.owned_streams import OwnedStreams
from controller.service.telemetry.metrics import Exposition, Metrics

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "monitoring.md"

HELP = re.compile(r"^# HELP (\w+) (.*)$", re.MULTILINE)
ROW = re.compile(r"^\| `((?:noted_time|process)_\w+)([^`]*)` \|.*\|$", re.MULTILINE)


def helps(scrape: str) -> dict[str, str]:
    r"""Return the help of each metric in a scrape, by name.

    >>> helps("# HELP noted_time_streams Streams\n# TYPE noted_time_streams gauge")
    {'noted_time_streams': 'Streams'}
    """
    return dict(HELP.findall(scrape))


def filled(page: str, texts: dict[str, str]) -> str:
    """Return the page with the help of each metric; a metric that has none here keeps its text.

    >>> filled("| `noted_time_lower{stream}` | old |", {"noted_time_lower": "Last lower"})
    '| `noted_time_lower{stream}` | Last lower |'
    """

    def row(match: re.Match[str]) -> str:
        name, labels = match.groups()
        text = texts.get(name, "").rstrip(".")
        return f"| `{name}{labels}` | {text} |" if text else match[0]

    return ROW.sub(row, page)


def main() -> None:
    """Write the page."""
    exposition = Exposition(Metrics().registry, OwnedStreams(), Moment(0, 0, 0))
    texts = helps(generate_latest(exposition).decode())
    PAGE.write_text(filled(PAGE.read_text("utf-8"), texts), "utf-8")


if __name__ == "__main__":
    main()
