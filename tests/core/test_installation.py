"""The commands in messages: how the program is called, and how an extra is installed."""

import os
import re
import shlex
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noted_time.installation import PROGRAM_VARIABLE, build_command, install_command, name_program

ANYWHERE = 'pip install "PATH[kafka]", where PATH is a clone of noted-time or its wheel'
ARCHIVE = "https://files.example/noted_time-1.0.0-py3-none-any.whl"
ROOT = Path(__file__).resolve().parents[2]
BARE = re.compile(r"pip install[^`#|,\n]*?(?<![\w./-])noted-time\b(?!\S* @)")
"""A command that names the project, and neither a path nor what follows an @."""


@pytest.fixture
def plain_start(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Remove the variable that says how the process was started."""
    monkeypatch.delenv(PROGRAM_VARIABLE, raising=False)
    return monkeypatch


def test_the_program_has_the_name_that_run_passes(plain_start: pytest.MonkeyPatch) -> None:
    """A shell does not find `noted-time` in a clone."""
    plain_start.setenv(PROGRAM_VARIABLE, "./run noted-time")

    assert name_program() == "./run noted-time"


@pytest.mark.parametrize("package", ["noted_time_cli", "noted_time", "controller"])
def test_the_program_is_named_as_a_module(plain_start: pytest.MonkeyPatch, package: str) -> None:
    """The command has the Python that the user typed."""
    spec = ModuleSpec(f"{package}.__main__", None)
    plain_start.setattr(sys.modules["__main__"], "__spec__", spec)
    plain_start.setattr(sys, "orig_argv", ["/a b/python", "-m", package, "serve"])

    assert name_program() == f"'/a b/python' -m {package}"


def test_the_program_is_named_with_uvx(plain_start: pytest.MonkeyPatch) -> None:
    """Its environment is not on the user's PATH."""
    plain_start.setattr(sys, "prefix", "/home/kim/.cache/uv/archive-v0/2Zx")

    assert name_program() == f'uvx --from "{ROOT}[controller]" noted-time'


def test_program_elsewhere_has_its_own_name(plain_start: pytest.MonkeyPatch) -> None:
    """This is the case for the installed command, and in users' scripts."""
    plain_start.setattr(sys.modules["__main__"], "__spec__", None)

    assert name_program() == "noted-time"


@pytest.mark.usefixtures("plain_start")
def test_editable_install_names_its_clone() -> None:
    assert install_command("spark,delta") == f'pip install -e "{ROOT}[spark,delta]"'


def test_an_extra_of_a_clone_is_for_its_own_python(plain_start: pytest.MonkeyPatch) -> None:
    """`./run` installs few packages, and a plain `pip` would install into another environment."""
    plain_start.setenv(PROGRAM_VARIABLE, "./run noted-time")

    python = shlex.quote(os.path.relpath(sys.executable))
    assert install_command("delta") == f'{python} -m pip install -e "{ROOT}[delta]"'


def test_a_wheel_and_a_clone_are_named_by_their_path(tmp_path: Path) -> None:
    clone = tmp_path / "a clone"
    clone.mkdir()
    url = clone.as_uri()

    assert build_command({"url": url, "dir_info": {}}, "cli") == f'pip install "{clone}[cli]"'
    assert build_command({"url": url, "archive_info": {}}, "") == f'pip install "{clone}"'


@pytest.mark.parametrize(
    ("recorded", "command"),
    [
        ({}, ANYWHERE),
        ({"url": "file:///no/such/noted_time.whl"}, ANYWHERE),
        ({"url": ARCHIVE, "archive_info": {}}, f'pip install "noted-time[kafka] @ {ARCHIVE}"'),
    ],
    ids=["a wheel of an index", "a clone that was removed, as in an image", "a server's archive"],
)
def test_command_names_what_pip_recorded(recorded: dict[str, Any], command: str) -> None:
    """The user names the place if pip recorded none, or it is not there."""
    assert build_command(recorded, "kafka") == command


def test_packages_without_metadata_ask_for_a_place(tmp_path: Path) -> None:
    """A clone on the PYTHONPATH is not installed."""
    program = "from noted_time.installation import install_command as c; print(c('kafka'))"
    (tmp_path / "noted_time").symlink_to(ROOT / "noted_time")
    (tmp_path / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    process = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert process.stdout.strip() == ANYWHERE


def test_imports_of_the_base_leave_out_urllib_request() -> None:
    """It would bring email, http and ssl, which only clients need."""
    program = "import sys, noted_time, writer_client, reader_client; print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert {"urllib.request", "email", "ssl"}.isdisjoint(process.stdout.split())


def test_messages_and_pages_install_by_wheel_or_clone() -> None:
    """No index has the project: the bare name would install another project."""
    places = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    for package in ("noted_time*", "controller", "demo", "*_client", "spark*"):
        places += ROOT.glob(f"{package}/**/*.py")
    named_places = {
        place.relative_to(ROOT).as_posix(): BARE.findall(place.read_text()) for place in places
    }

    explained_places = {
        "docs/explain/releasing.md": ['pip install "noted-time']  # once it is released
    }
    assert {place: names for place, names in named_places.items() if names} == explained_places
