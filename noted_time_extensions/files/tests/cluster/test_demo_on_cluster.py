"""The page about `./run cluster`, which runs the query of the demo."""

from pathlib import Path

import pytest

from demo.run_cluster import write_flights
from tests.support.page import Example, Runner
from tools.trials.cluster import HOME, Cluster
from tools.trials.served import Served

pytestmark = pytest.mark.acceptance


class Saving(Runner):
    """Saves a program that begins with its file's name, for a later command to run."""

    def run(self, example: Example) -> str:
        """Return the output of a program, or nothing if it is only saved."""
        name = example.program.partition("\n")[0].removeprefix("# ")
        if example.language != "python" or not name.endswith(".py"):
            return super().run(example)
        (self.directory / name).write_text(self.localize(example.program))
        return ""


def test_page_runs_as_printed(
    cluster: Cluster, connect: str, served: Served, tmp_path: Path
) -> None:
    """A program is submitted, and another one connects."""
    data = "build/cluster/run"
    elsewhere = {
        ".venv/bin/spark-submit": str(HOME / "bin" / "spark-submit"),
        f"{data}/spark/spark.conf": str(cluster.properties),
        data: str(tmp_path),
        "http://127.0.0.1:7080": served.url,
        "sc://127.0.0.1:7079": connect,
    }
    write_flights(1, served.url, tmp_path / "log")

    *_, submitted, connected = Saving(tmp_path, served.url, elsewhere).run_page(
        "docs/guides/spark-elsewhere.md", "A cluster"
    )

    assert "|{2013-01-01 10:00:00, 2013-01-01 11:00:00}|LGA" in submitted
    assert "|   EWR|" in connected
