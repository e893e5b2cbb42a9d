from pathlib import Path

import pytest

from tests.support.suites import programs_of
from tests.upgrade.versions import FIRST_RELEASE, code_of


@pytest.fixture(autouse=True, scope="session")
def _chosen() -> None:
    """Skip these tests where they are not asked for."""
    programs_of("upgrade")


@pytest.fixture(scope="session")
def first_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the code of version 0.1.0."""
    return code_of(FIRST_RELEASE, tmp_path_factory.mktemp("versions") / "0.1.0")
