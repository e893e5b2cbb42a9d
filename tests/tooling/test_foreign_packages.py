"""Other people's directories with the names of our packages do no harm."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tooling.wheels import build, install

STARTS = {
    "the command, from there": (False, False),
    "the command, with PYTHONPATH": (False, True),
    "python -m, from there": (True, False),
}


class Start(NamedTuple):
    """How and where the command line is started."""

    words: list[str]
    cwd: Path
    environment: dict[str, str]

    def serve(self) -> str:
        """Serve until it listens; return the event that reports it, or all output."""
        with subprocess.Popen(
            [*self.words, "serve", "--port", "0"],
            cwd=self.cwd,
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            said = ""
            for line in process.stderr:
                if '"serving"' in line:
                    process.terminate()
                    said = "serving"
                    break
                said += line
        return said


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel, as pip does it, beside the packages of this environment."""
    directory = tmp_path_factory.mktemp("installed")
    return install(build(directory), directory / "own")


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Create a directory with packages of these names, which cannot be imported."""
    for package in (tmp_path / "controller", tmp_path / "migrations"):
        package.mkdir()
        for name in ("__init__", "env"):
            (package / f"{name}.py").write_text("raise RuntimeError('a package of others')\n")
    return tmp_path


@pytest.fixture(params=STARTS)
def start(request: pytest.FixtureRequest, own: Path, foreign: Path) -> Start:
    """Start it with the foreign directory first on the path, or as the current one."""
    by_module, on_path = STARTS[request.param]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("NOTED_TIME_")}
    path = [str(foreign)] * on_path + [str(own.parents[1])]
    words = ["-m", "noted_time"] if by_module else [str(own)]
    environment = inherited | {"PYTHONPATH": os.pathsep.join(path)}
    return Start([sys.executable, *words], foreign, environment)


def test_the_first_serve_finds_its_own_packages(start: Start) -> None:
    """The controller, and the migrations that make its database: those beside the code."""
    assert (start.serve(), (start.cwd / "noted-time.db").exists()) == ("serving", True)
