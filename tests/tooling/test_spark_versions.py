"""How `./run test --spark V` tests one release of Spark, and what the pages state of each."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from spark_integration.jars import CHECKSUMS
from spark_integration.versions import NEEDS, OLDEST, release_of
from tests.support.spark_versions import PAGES, TABLE, rendered, with_table
from tests.tooling.test_locks import pins


@pytest.fixture
def table() -> dict[str, Any]:
    """Return what the runs showed."""
    found: dict[str, Any] = json.loads(TABLE.read_text())
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_the_table_that_the_runs_made(page: Path, table: dict[str, Any]) -> None:
    """`./run test --spark V` writes it for one release; it is not edited."""
    text = page.read_text()

    assert rendered(table) in text
    assert with_table(text, rendered(table)) == text


def test_the_table_is_of_the_releases_that_are_installed_here(
    root: Path, table: dict[str, Any]
) -> None:
    """A lock with another PySpark has to be run again."""
    locks = {lock.stem: lock for lock in (root / "requirements-spark").glob("*.lock")}
    locked = {release: pins(lock)["pyspark"][0] for release, lock in locks.items()}
    (newest,) = pins(root / "requirements.lock")["pyspark"]

    expected = {**locked, newest.rpartition(".")[0]: newest}
    assert {release: each["pyspark"] for release, each in table.items()} == expected


def test_what_passed_is_what_is_not_refused(table: dict[str, Any]) -> None:
    """By `NEEDS`; what it does not name works with the oldest."""
    features = {feature for each in table.values() for feature in each["passed"]}
    kafka = {"read_noted_kafka": NEEDS['read_noted_kafka(marks="ahead")']}
    needs = {feature: {**NEEDS, **kafka}.get(feature) for feature in features - {"Spark Connect"}}
    for release, each in table.items():
        expected = {
            feature for feature, need in needs.items() if release_of(release) >= (need or OLDEST)
        }
        assert {*each["passed"]} - {"Spark Connect"} == expected


def test_another_spark_lies_in_front_of_all_that_the_usual_one_has(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed once by its hash alone, so that every other pin stays in one lock."""
    installed: list[tuple[str, ...]] = []
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "SPARK_LOCKS", tmp_path)
    monkeypatch.setattr(run, "pip", lambda _env, *words: installed.append(words))
    lock = tmp_path / "3.5.lock"
    lock.write_text("pyspark==3.5.9\n")
    env = {"PATH": "/bin"}

    given = run.install_spark(env, "3.5")
    run.install_spark(env, "3.5")
    home = tmp_path / ".venv-spark-3.5"
    (path,) = home.rglob("usual.pth")

    assert installed == [("--no-deps", "--require-hashes", "-r", str(lock))]
    assert str(run.VENV / path.parent.relative_to(home)) in path.read_text()
    assert given["PYSPARK_PYTHON"] == str(home / run.BIN.name / "python")


@pytest.mark.parametrize("words", [["--spark"], ["--spark", "2.4"], ["-x", "--spark", "3.5.9"]])
def test_an_unknown_spark_is_refused_with_the_known(
    run: ModuleType, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is installed."""
    with pytest.raises(SystemExit):
        run.chosen_spark(words)

    assert "takes one of 3.5, 4.0, 4.1, 4.2, 4.3." in capsys.readouterr().err


def test_the_page_has_the_jars_for_each_spark(root: Path) -> None:
    """The versions whose checksums are known."""
    page = (root / "docs" / "spark.md").read_text()
    rows = [" | ".join(version for version, _ in jars) for jars in CHECKSUMS.values()]

    assert [row for row in rows if f"| {row} |" not in page] == []
