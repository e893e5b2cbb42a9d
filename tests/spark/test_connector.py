"""The connector for each Spark, on its page and in the tested jars, and the errors without one."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from spark_integration import kafka_package
from tests.support.page import read_page
from tests.support.processes import environment
from tools.trials.kafka import CONNECTORS

pytestmark = [pytest.mark.spark, pytest.mark.needs_spark("3.5")]

PAGE = "docs/reference/versions.md"


@pytest.mark.parametrize("spark", CONNECTORS)
def test_tested_jars_match_the_package_and_its_page(spark: str) -> None:
    """The page lists the versions for manual downloads."""
    connector, provider, clients, pool = CONNECTORS[spark]
    page = read_page(PAGE)

    assert kafka_package(spark) == f"{connector.group}:{connector.name}:{provider.version}"
    scala = connector.name.rpartition("_")[2]
    row = f" | {scala} | {provider.version} | {clients.version} | {pool.version} |\n"
    assert (row in page, f"`{connector.version}`" in page) == (True, connector.version == "4.1.3")


CHECKED = """
import sys
from noted_time import Rejected
from spark_integration.session.connector import check_connector
from tests.support.spark_sessions import start_spark

for jars in sys.argv[1:]:
    session = start_spark({"spark.jars": jars})
    try:
        check_connector(session)
    except Rejected as refused:
        print(refused)
    session.stop()
"""


def check_sessions(*jars: str) -> subprocess.CompletedProcess[str]:
    """Check the connector of a session with each of these jars, and return the output."""
    words = [sys.executable, "-c", CHECKED, *jars]
    return subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)


def test_other_error_of_spark_is_not_a_missing_connector(tmp_path: Path) -> None:
    """Spark names a jar of another source that does not load."""
    broken = tmp_path / "broken.jar"
    with ZipFile(broken, "w") as jar:
        services = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
        jar.writestr(services, "com.example.NoSource")
    process = check_sessions(str(broken))

    assert "Provider com.example.NoSource not found" in process.stderr
    assert process.stdout == ""


def test_session_without_matching_connector_names_the_package(tmp_path: Path) -> None:
    """The error names the setting, before a query fails at its first batch."""
    other = "4.0" if pyspark.__version__.startswith("4.1") else "4.1"
    foreign = tmp_path / f"spark-sql-kafka-0-10_2.13-{other}.0.jar"
    foreign.write_bytes(b"")
    process = check_sessions("", str(foreign))

    remedy = f": start it with `spark.jars.packages` = `{kafka_package()}`, which "
    none, unfit = (line.partition(remedy) for line in process.stdout.splitlines())
    assert none[:2] == ("this Spark session cannot load a Kafka source", remedy)
    spark = f"Spark {pyspark.__version__} of this session"
    assert unfit[:2] == (f"{foreign.name} does not fit {spark}", remedy)
