"""The page about `./run cluster`, which runs the query of the demo."""

import shlex
import shutil
import sys
from pathlib import Path

import pytest

from demo.run_cluster import DATA, QUERY, write_flights
from tests.support.page import Example, Runner
from tools.trials.cluster import Cluster
from tools.trials.served import Served
from tools.trials.spark_programs import ROOT

pytestmark = pytest.mark.acceptance

RUN_SCRIPT = f"""#!/bin/sh
export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH
exec "$@"
"""
"""What `./run spark-submit` does once the environment of the clone is there."""


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
    elsewhere = {"http://127.0.0.1:7080": served.url, "sc://127.0.0.1:7079": connect}
    data = tmp_path / "build" / "cluster" / "run"
    (data / "spark").mkdir(parents=True)
    shutil.copy(cluster.properties, data / "spark" / "spark.conf")
    write_flights(1, served.url, data / "log")
    runner = Saving(tmp_path, served.url, elsewhere)
    (tmp_path / "run").write_text(RUN_SCRIPT)

    *_, submitted_output, connect_output = runner.run_page(
        "docs/guides/spark-elsewhere.md", "A cluster"
    )

    assert "|{2013-01-01 10:00:00, 2013-01-01 11:00:00}|LGA" in submitted_output
    assert "|   EWR|" in connect_output


def test_cluster_has_query_and_files_in_the_clone() -> None:
    assert QUERY.is_file()
    assert DATA == ROOT / "build" / "cluster"
