"""What the committed requirement locks promise."""

import re
import tomllib
from pathlib import Path

import pytest

SPARKS = [f"requirements-spark/{release}.lock" for release in ("3.5", "4.0", "4.1", "4.2")]
LOCKS = ["requirements.lock", "requirements-java.lock", *SPARKS]


def pins(lock: Path) -> dict[str, list[str]]:
    """Return the pinned versions per distribution."""
    found: dict[str, list[str]] = {}
    for name, version in re.findall(
        r"^([\w.-]+)(?:\[.*\])?==(\S+)", lock.read_text(), re.MULTILINE
    ):
        found.setdefault(name, []).append(version)
    return found


def declared(root: Path) -> set[str]:
    """Return every distribution that pyproject.toml asks for."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    groups = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    return {re.split(r"[^\w.-]", line)[0] for group in groups for line in group}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_index(root: Path, lock: str) -> None:
    """It installs from whatever index the user has, a mirror included."""
    assert "://" not in (root / lock).read_text()


@pytest.mark.parametrize("lock", LOCKS)
def test_every_requirement_is_pinned_and_hashed(root: Path, lock: str) -> None:
    """Pip refuses a lock with a line that has none."""
    text = re.sub(r"^\s*#.*\n", "", (root / lock).read_text(), flags=re.MULTILINE).replace(
        "\\\n", ""
    )

    pinned = r"[\w.-]+(\[.*\])?==\S+( ; [^-]+)?( +--hash=sha256:[0-9a-f]{64})+ *"
    assert [line for line in text.splitlines() if not re.fullmatch(pinned, line)] == []


def test_the_lock_holds_all_that_the_project_asks_for(root: Path) -> None:
    """A dependency added without `./run lock` is noticed here."""
    assert declared(root) - pins(root / "requirements.lock").keys() == set()


def test_spark_gets_the_pandas_it_knows(root: Path) -> None:
    """PySpark 4.3 warns about pandas 3."""
    locked = pins(root / "requirements.lock")

    assert [v.split(".")[0] for v in locked["pyspark"] + locked["pandas"]] == ["4", "2"]
