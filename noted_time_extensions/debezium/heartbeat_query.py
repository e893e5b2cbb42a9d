"""The heartbeat query of `--by start`, which emits when the oldest open transaction began.

It reads the activity first and the prepared transactions after that: a transaction that is prepared
in between is seen by one of them. The correlated subquery makes PostgreSQL keep this order.
"""

from __future__ import annotations

from importlib import resources

MESSAGE_PREFIX = "noted-time"


def build_query() -> str:
    """Return the query on one line, without double quotes, for a connector's configuration."""
    statement = resources.files(__package__).joinpath("heartbeat.sql").read_text("utf-8")
    return " ".join(statement.split()).replace("( ", "(").replace(" )", ")")


def build_settings() -> list[str]:
    """Return the settings of a connector for `--by start`."""
    return ["heartbeat.interval.ms=1000", f"heartbeat.action.query={build_query()}"]
