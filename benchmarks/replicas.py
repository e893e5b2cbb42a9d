"""Two controllers that share one database: their load, their marks, and the death of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import replica_load, replica_marks, takeover
from benchmarks.postgres_server import postgres

if TYPE_CHECKING:
    from benchmarks.figures import Figure, Run


def measure(run: Run) -> list[Figure]:
    """Measure one after the other, in databases of their own on one server."""
    with postgres(run) as server:
        if server is None:
            return []
        figures = replica_load.measure(run, server)
        figures += replica_marks.measure(run, server)
        return figures + takeover.measure(run, server)
