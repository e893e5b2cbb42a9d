"""Settings of all tests and their programs, and shared fixtures."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import certifi
import pytest
import structlog
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from pyspark.sql import SparkSession
from xdist.remote import Producer

from spark_integration.session.versions import PYTHON_SOURCES
from tests.support import spark_versions, suites
from tests.support.classes import make_in_background
from tests.support.distribution import Together, rank_test
from tools.trials import classes
from tools.trials.certificates import make_authority
from tools.trials.descendants import end_with_this_process
from tools.trials.postgres import Server

if TYPE_CHECKING:
    from tools.trials.kafka import Broker
    from tools.trials.served import Served

pytest_plugins = ("tests.support.clusters",)

SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m "
    "-Djdk.lang.Process.launchMechanism=VFORK"
)
"""Java processes of tests are short; without the second compiler, they take a third less CPU."""

os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED)
os.environ.setdefault("SPARK_SUBMIT_OPTS", classes.read(classes.SPARK))

ROOMY = {"spark.driver.extraJavaOptions": "-Xms1g -Xmn400m -XX:MetaspaceSize=300m"}
"""A session of many tests makes much garbage and keeps little: a twelfth of its CPU time."""

# A run that is cut off leaves no broker, no database and no Spark behind.
end_with_this_process()

# How hard properties are tried: `./run test --hypothesis-profile=deep` tries many more examples.
# It is here because pytest looks for the profile before it collects any test.
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
# Where a build sets CI, Hypothesis would repeat the same examples, and keep none that failed.
FOUND = DirectoryBasedExampleDatabase(Path(__file__).parents[1] / ".hypothesis" / "examples")
settings.register_profile(
    "ci",
    max_examples=60,
    deadline=None,
    suppress_health_check=QUIET,
    derandomize=False,
    database=FOUND,
)
settings.register_profile("deep", settings.get_profile("ci"), max_examples=10_000)
settings.load_profile("ci")
HOURS = 4 * 3600
"""How long one test may take of the profile with the most examples."""

# An httpx client loads the 130 authorities of the public web, 25 ms of CPU time, and tests make
# thousands of clients that only talk to this machine. Here they load one or none.
TESTS = Path(__file__).parent
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(TESTS)
CERTIFICATE = TESTS / "access" / "certificate"
if not (CERTIFICATE / "certificate.pem").exists():
    make_authority(CERTIFICATE)
certifi.where = lambda: str(CERTIFICATE / "certificate.pem")

# An asynchronous httpx client asks for this package some eight times a request. If it is not
# installed, each time is a search of the whole path, 0.2 ms.
if find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]

# A shell that starts a build in the background has it ignore Ctrl-C, which every program that a
# test starts and interrupts would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Make the archives that let Java start faster, if several processes run tests."""
    has_several = session.config.getoption("numprocesses", None)
    with make_in_background() if has_several else nullcontext():
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the longest groups of tests, and give all more time if a profile was asked for.

    Skip tests that need a newer Spark than the installed one, and tests of other suites.
    """
    items.sort(key=lambda item: rank_test(item.nodeid))
    suites.skip_others(items)
    spark_versions.skip_newer(items)
    if config.getoption("--hypothesis-profile"):
        for item in items:
            item.add_marker(pytest.mark.timeout(HOURS))


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skip modules that an older Spark cannot import."""
    if spark_versions.RUNNING >= PYTHON_SOURCES:
        return None
    return spark_versions.OfOlderSpark.from_parent(parent, path=module_path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together | None:
    """Give each process whole groups of tests, where whole files were asked for."""
    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(autouse=True, scope="session")
def quiet_log() -> None:
    """Keep the controller's log out of the tests' output."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@pytest.fixture
def whole_log() -> Iterator[None]:
    """Log every level during a test."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(0))
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run coroutines on asyncio, as the server does."""
    return "asyncio"


@pytest.fixture(scope="session")
def database_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a migrated database, for tests to copy."""
    from controller.store.migrate import migrate  # noqa: PLC0415 - a second, for few tests

    file = tmp_path_factory.mktemp("migrated") / "empty.db"
    migrate(f"sqlite:///{file}")
    return file


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Return a controller that the tests of a module share."""
    from tools.trials.served import Served  # noqa: PLC0415 - a second, for few tests

    with Served() as running:
        yield running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Return the PostgreSQL server of a process; tests that need it are skipped without one."""
    from tools.trials.postgres import UNSYNCED, Server, find_binaries  # noqa: PLC0415 - for few tests

    directory = find_binaries()
    if directory is None:
        pytest.skip("neither PostgreSQL's binaries nor the wheel are installed")
    with Server(directory, *UNSYNCED) as running:
        yield running


@pytest.fixture(scope="session")
def reusable_database(server: Server) -> str:
    """Return a migrated database that one test after the other empties: one takes a second."""
    from controller.store.migrate import migrate  # noqa: PLC0415 - a second, for few tests

    url = server.make_database()
    migrate(url)
    return url


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return the Kafka broker of a process; tests that need it are skipped without its jars.

    It is shared: a test that ends it starts it again, and names its topics after itself.
    """
    from tools.trials import kafka  # noqa: PLC0415 - half a second, for few tests

    if not kafka.is_installed():
        pytest.skip(kafka.MISSING)
    with kafka.Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return a local session of two cores; its workers find the packages of this clone.

    A process has only one, with the settings of its first user. It reads Kafka if the connector is
    installed, and has the interceptor if it can be built. It writes tables of Delta and Iceberg if
    there are connectors for its release.
    """
    from tests.support.quick_python import quick_python  # noqa: PLC0415 - likewise
    from tests.support.spark_sessions import start_spark  # noqa: PLC0415 - likewise
    from tools.trials import java, kafka, tables  # noqa: PLC0415 - half a second, for few tests

    own_jars = [str(java.interceptor_jar())] if kafka.is_installed() and java.compiler() else []
    jars = ",".join([*kafka.connector(), *tables.connectors(), *own_jars])
    of_tables = tables.settings(tmp_path_factory.mktemp("tables"))
    with quick_python() as python:
        session = start_spark({"spark.jars": jars, **ROOMY, **of_tables}, python)
        yield session
        session.stop()
