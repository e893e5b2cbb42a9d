from pathlib import Path

import pytest

from tests.upgrade.versions import FIRST_RELEASE, UPGRADE_BASE, code_of


@pytest.fixture(scope="session")
def first_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the code of version 0.1.0."""
    return code_of(FIRST_RELEASE, tmp_path_factory.mktemp("versions") / "0.1.0")


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the code from which on versions run side by side."""
    return code_of(UPGRADE_BASE, tmp_path_factory.mktemp("versions") / "base")
