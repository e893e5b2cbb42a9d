from pathlib import Path

import pytest

from tests.support.suites import find_programs
from tools.release import building, maven
from tools.trials import java


@pytest.fixture(scope="session")
def tools() -> Path:
    """Return the directory of the suite's programs."""
    return find_programs("packages")


@pytest.fixture(scope="session")
def distributions(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Build sdist and wheel twice, and require equal bytes."""
    return building.distributions(building.ROOT, tools, tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="session")
def wheel(distributions: list[Path]) -> Path:
    """Return the wheel."""
    return next(distribution for distribution in distributions if distribution.suffix == ".whl")


@pytest.fixture(scope="session")
def artifacts(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the interceptor twice, require equal bytes, and return its directory."""
    assert tools.is_dir()
    if java.compiler() is None:
        pytest.skip(java.MISSING)
    return maven.repository(tmp_path_factory.mktemp("maven")) / maven.coordinates()
