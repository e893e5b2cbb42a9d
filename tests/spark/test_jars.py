"""How the jars are fetched with which Spark reads Kafka, from a repository in a directory."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest
from typer.testing import CliRunner

from noted_time import Rejected, Unreachable
from noted_time_cli.app import app
from spark_integration.session import jars
from spark_integration.session.jars import CONNECTOR, Jar, fetch
from tests.support.processes import environment

pytestmark = [pytest.mark.spark, pytest.mark.needs_spark("3.5")]

REPOSITORY = """<ivysettings>
  <settings defaultResolver="own"/>
  <resolvers><ibiblio name="own" m2compatible="true" root="{root}"/></resolvers>
</ivysettings>
"""
POM = """<project><modelVersion>4.0.0</modelVersion>
  <groupId>{jar.group}</groupId><artifactId>{jar.name}</artifactId><version>{jar.version}</version>
</project>
"""


class Repository:
    """A Maven repository with two jars; `settings` leads Ivy to it, and `said` are its lines."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "jars of mine"
        self.settings = root / "ivysettings.xml"
        self.settings.write_text(REPOSITORY.format(root=(root / "maven").as_uri()))
        self.said: list[str] = []
        self.jars = [self._publish(root / "maven", name) for name in ("one", "two")]

    def _publish(self, root: Path, name: str) -> Jar:
        content = name.encode()
        jar = Jar("org.example", name, "1.0", hashlib.sha256(content).hexdigest())
        directory = root / "org" / "example" / name / "1.0"
        directory.mkdir(parents=True)
        (directory / jar.file).write_bytes(content)
        (directory / f"{name}-1.0.pom").write_text(POM.format(jar=jar))
        return jar

    def fetch(self, *jars: Jar, patience_s: float = 60.0) -> list[Path]:
        """Fetch jars, by default both."""
        return fetch(
            jars or self.jars,
            self.directory,
            ivy_settings=self.settings,
            say=self.said.append,
            patience_s=patience_s,
        )

    def kept(self) -> list[str]:
        """Return the names in the directory."""
        return sorted(each.name for each in self.directory.iterdir())


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository with two jars."""
    return Repository(tmp_path)


def test_jars_are_fetched_once_with_a_line_each(repository: Repository) -> None:
    """What is there unchanged is not fetched again; a jar that was damaged since is."""
    repository.fetch()
    first = repository.said.copy()
    repository.fetch()
    (repository.directory / "two-1.0.jar").write_text("damaged")
    paths = repository.fetch()

    into = f"into {repository.directory}."
    assert first == [f"Fetching 2 jars {into}", "1/2  one 1.0", "2/2  two 1.0"]
    assert repository.said[len(first) :] == [f"Fetching 1 jars {into}", "1/1  two 1.0"]
    assert [path.read_text() for path in paths] == ["one", "two"]
    assert repository.kept() == ["one-1.0.jar", "two-1.0.jar"]


def test_a_jar_with_another_checksum_is_refused_and_nothing_kept(repository: Repository) -> None:
    """Nor the others that came with it: a repository that changed one may have changed more."""
    one, two = repository.jars

    with pytest.raises(Rejected, match=r"^two-1\.0\.jar: checksum mismatch"):
        repository.fetch(one, replace(two, sha256=one.sha256))
    assert repository.kept() == []


def test_a_jar_that_the_repository_lacks_is_named_with_a_remedy(repository: Repository) -> None:
    """None is fetched then, and the cause is Ivy's."""
    absent = Jar("org.example", "three", "1.0", "")

    with pytest.raises(Unreachable, match=r"three;1\.0: not found\): .*--ivy-settings"):
        repository.fetch(repository.jars[0], absent)
    assert repository.kept() == []


def test_a_repository_that_sends_nothing_is_not_waited_for(repository: Repository) -> None:
    """As that of a network that drops what it does not let through."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        root = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        repository.settings.write_text(REPOSITORY.format(root=root))

        with pytest.raises(Unreachable, match="sent nothing for 2 s"):
            repository.fetch(patience_s=2.0)


def test_the_command_prints_the_setting_alone_and_explains_it_beside(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that `--jars "$(noted-time spark-jars)"` is all that a submission needs."""
    monkeypatch.setattr(jars, "CONNECTOR", repository.jars)
    given = ("--directory", repository.directory, "--ivy-settings", repository.settings)
    done = CliRunner().invoke(app, ["spark-jars", *map(str, given)])

    paths = (str(repository.directory / jar.file) for jar in repository.jars)
    assert (done.exit_code, done.stdout) == (0, ",".join(paths) + "\n")
    assert f'spark_jars("{repository.directory}")' in done.stderr


def test_without_java_the_remedy_is_named(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAVA_HOME comes before the PATH, as for Spark."""
    monkeypatch.setenv("JAVA_HOME", str(repository.directory))

    with pytest.raises(Rejected, match="takes Java 17 or newer: set JAVA_HOME"):
        repository.fetch()


CHECKED = """
import sys
from noted_time import Rejected
from spark_integration.session.jars import check_connector
from tests.support.spark_sessions import start_spark

for jars in sys.argv[1:]:
    session = start_spark({"spark.jars": jars})
    try:
        check_connector(session)
    except Rejected as refused:
        print(refused)
    session.stop()
"""


def test_what_else_spark_fails_with_is_no_lack_of_a_connector(tmp_path: Path) -> None:
    """Such as a jar of another source that does not load: Spark names it, with or without Kafka."""
    broken = tmp_path / "broken.jar"
    with ZipFile(broken, "w") as jar:
        services = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
        jar.writestr(services, "com.example.NoSource")
    done = subprocess.run(
        [sys.executable, "-c", CHECKED, str(broken)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Provider com.example.NoSource not found" in done.stderr
    assert done.stdout == ""


def test_a_session_without_a_connector_that_fits_is_refused_with_all_four_jars(
    tmp_path: Path,
) -> None:
    """By name, and with the command that fetches them, before a query fails at its first batch."""
    other = "4.0" if pyspark.__version__.startswith("4.1") else "4.1"
    foreign = tmp_path / f"spark-sql-kafka-0-10_2.13-{other}.0.jar"
    foreign.write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-c", CHECKED, "", str(foreign)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    none, unfit = done.stdout.splitlines()
    assert "this Spark session cannot load a Kafka source" in none
    assert f"{foreign.name} does not fit" in unfit
    for said in (none, unfit):
        assert ", which takes four jars: " in said
        assert [jar.file for jar in CONNECTOR if jar.file not in said] == []
        assert "`noted-time spark-jars`" in said
