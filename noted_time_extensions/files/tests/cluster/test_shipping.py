"""How the package reaches the Pythons that Spark starts, and their errors without it."""

import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import pytest
from pyspark import cloudpickle

from noted_time_extensions.files import NotedLogSink
from noted_time_extensions.files.spark.log_source import LogSource
from spark_integration.checkpoint.source_positions import KafkaTopic
from spark_integration.marks_source.query import MarksQuery
from spark_integration.marks_source.source import MarksSource
from spark_integration.session.pickling import make_source_class
from spark_integration.session.sources import build_options
from tests.support.noted_stream import NotedStream
from tools.trials.served import Served
from tools.trials.spark_programs import ROOT, SparkProgram
from writer_client import WriterClient

PROGRAM = Path(__file__).parents[1] / "spark" / "programs" / "read_shipped.py"
PACKAGES = (
    "noted_time",
    "reader_client",
    "writer_client",
    "spark_integration",
    "noted_time_extensions",
)
REMEDY = (
    "install noted-time with its extra spark there, "
    "or ship it by spark.archives or by spark.executorEnv."
)
IN_DIRECTORY = 'cd "$1" && shift && exec env -u PYTHONPATH "$@"'


class Ways(NamedTuple):
    """A Python without the package, and the package in two forms."""

    bare: Path
    zipped: Path
    packed: Path


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Ways:
    """Return a Python that has everything but the package, and the forms to ship it."""
    directory = tmp_path_factory.mktemp("ways")
    environment = directory / "environment"
    archive_file = directory / "noted.zip"
    venv.create(environment, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    # A `.pth` adds a directory without the `.pth` files in it, such as this clone's.
    (site / "all.pth").write_text(sysconfig.get_path("purelib"))
    bare = shutil.copytree(environment, directory / "bare", symlinks=True)
    with ZipFile(archive_file, "w") as archive:
        for package in PACKAGES:
            archive.mkdir(package)  # Python finds a namespace in a zip only by its folder
            for file in (ROOT / package).rglob("*.py"):
                archive.write(file, file.relative_to(ROOT))
            shutil.copytree(ROOT / package, site / package)
    with tarfile.open(directory / "environment.tar.gz", "w:gz") as packed_file:
        packed_file.add(environment, ".")
    return Ways(bare / "bin" / "python", archive_file, directory / "environment.tar.gz")


class Runs:
    """Runs of the program in a directory that holds no package."""

    def __init__(self, flights: NotedStream, ways: Ways, directory: Path) -> None:
        self._ways = ways
        self.directory = directory
        self._given = {
            "root": str(flights.root),
            "url": flights.server.url,
            "checkpoint": str(directory / "checkpoint"),
            "package": str(ways.zipped),
        }

    def __call__(self, *steps: str, python: str = "", **arguments: object) -> list[int | str]:
        """Return the result of each step. Spark starts the Python without the package."""
        chosen_python = f"PYSPARK_PYTHON={python or self._ways.bare}"
        words = ("sh", "-c", IN_DIRECTORY, "sh", str(self.directory), chosen_python, sys.executable)
        program_input = {**self._given, "steps": steps, **arguments}
        program = SparkProgram(PROGRAM, program_input, self.directory / "log", words)
        came: list[int | str] = json.loads(program.finish())
        return came


@pytest.fixture
def run(tmp_path: Path, served: Served, ways: Ways) -> Runs:
    """Return how to run the program on a log of two rows."""
    flights = NotedStream(tmp_path / "log of flights", "flights", served)
    flights.append(0, (1000, "a"), (2500, "b"))
    flights.note(3000)
    return Runs(flights, ways, tmp_path)


@pytest.mark.parametrize("remote", [False, True], ids=["addPyFile", "addArtifacts"])
def test_files_that_are_added_carry_batch_sources_only(
    run: Runs, ways: Ways, *, remote: bool
) -> None:
    """The planner of a stream does not find them, and says so."""
    without, _, batch, stream = run("batch", "add", "batch", "stream", remote=remote)

    lacks = f"{ways.bare} on "
    assert (lacks in str(without), REMEDY in str(without)) == (True, True)
    assert batch == 2
    assert (lacks in str(stream), REMEDY in str(stream)) == (True, True)
    assert "addArtifacts do not reach the processes that plan a stream" in str(stream)


def test_pythonpath_of_the_executors_reaches_the_planners(run: Runs, ways: Ways) -> None:
    """It names a directory or archive that all of them see."""
    settings = {"spark.executorEnv.PYTHONPATH": str(ways.zipped)}

    assert run("batch", "stream", settings=settings) == [2, 2]


def test_packed_environment_is_used_from_the_drivers_directory(run: Runs, ways: Ways) -> None:
    """Executors unpack it. The planners start in the driver's directory."""
    unpacked_folder = run.directory / "environment"
    shutil.copytree(ways.packed.parent / "environment", unpacked_folder, symlinks=True)
    settings = {"spark.archives": f"{ways.packed}#environment"}

    assert run("stream", python="./environment/bin/python", settings=settings) == [2]


def test_python_without_a_package_names_the_variable_to_set(
    run: Runs, ways: Ways, tmp_path: Path
) -> None:
    """A driver that was started by its path uses another Python than the one on the PATH."""
    venv.create(tmp_path / "bare", symlinks=True)
    python = tmp_path / "bare" / "bin" / "python"
    settings = {"spark.executorEnv.PYTHONPATH": str(ways.zipped)}

    (error,) = run("stream", python=str(python), settings=settings)

    assert f"{python} on " in str(error)
    assert " has no module 'msgspec', " in str(error)
    assert f" The driver's {sys.executable} has it: set PYSPARK_PYTHON to such a " in str(error)


def make_source() -> object:
    """Return what Spark sends to the first process of a read."""
    return make_source_class(LogSource, "noted_log")


def make_reader() -> object:
    """Return what Spark sends to the workers."""
    marks = MarksQuery({"flights": KafkaTopic("flights")}, "http://127.0.0.1", "/checkpoint")
    source = MarksSource(build_options(marks))
    return source.streamReader(source.schema())


def make_sink() -> object:
    """Return an object that a Connect client sends to the process that runs the batches."""
    writer = partial(WriterClient, "counts", "w", controller="http://127.0.0.1")
    return NotedLogSink("/log", "counts", writer, checkpoint_location="/checkpoint")


@pytest.mark.parametrize("sent", [make_source, make_reader, make_sink])
def test_unpickling_without_the_package_names_the_remedy(
    sent: Callable[[], object], ways: Ways
) -> None:
    """The error names the Python and the host without the package."""
    program = "import sys; from pyspark import cloudpickle as c; c.load(sys.stdin.buffer)({})"
    pickled_value = cloudpickle.dumps(sent())  # type: ignore[no-untyped-call]
    words = ["env", "-u", "PYTHONPATH", str(ways.bare), "-c", program]
    lacking = subprocess.run(words, input=pickled_value, capture_output=True, cwd="/", check=False)

    assert f"ImportError: {ways.bare} on ".encode() in lacking.stderr
    assert REMEDY.encode() in lacking.stderr
