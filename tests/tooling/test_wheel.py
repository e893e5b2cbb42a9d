"""What `pip install noted-time` gives, and what it does not."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import pytest

from tests.support.waiting import PATIENCE_S
from tests.tooling.wheels import ROOT, build, install, link_needs

PACKAGES = ("noted_time", "controller", "writer_client", "reader_client", "spark_integration")
HEAVY = ("fastapi", "msgspec", "rich", "structlog", "sqlalchemy", "typer", "uvicorn", "pyarrow")


class Installed(NamedTuple):
    """The wheel, installed with what it declares and nothing else."""

    wheel: Path
    command: Path
    path: str

    def run(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run Python without this environment's packages: with the wheel and its needs alone."""
        return subprocess.run(
            [sys.executable, "-S", *words],
            cwd=cwd,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": self.path},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheel without any extra."""
    directory = tmp_path_factory.mktemp("installed")
    wheel = build(directory)
    command = install(wheel, directory / "own")
    link_needs(wheel, directory / "needed")
    return Installed(wheel, command, f"{directory / 'own'}{os.pathsep}{directory / 'needed'}")


def test_the_wheel_carries_types_migrations_and_pages(installed: Installed) -> None:
    """Each package is marked as typed; the files of the dashboard are the same as here."""
    dashboard = [each for each in (ROOT / "controller/api/dashboard").iterdir() if each.is_file()]
    with ZipFile(installed.wheel) as files:
        names = set(files.namelist())
        carried = {
            each.name: files.read(f"controller/api/dashboard/{each.name}") for each in dashboard
        }

    expected = {f"{package}/py.typed" for package in PACKAGES} | {"migrations/env.py"}
    assert expected - names == set()
    assert carried == {each.name: each.read_bytes() for each in dashboard} != {}


def test_the_base_install_has_the_clients_only(installed: Installed, tmp_path: Path) -> None:
    """They can be imported without what the controller, the command line and Spark need."""
    program = f"""
import importlib.util
from reader_client import ReaderClient
from writer_client import WriterClient
print([name for name in {HEAVY} if importlib.util.find_spec(name)])
"""
    done = installed.run("-c", program, cwd=tmp_path)

    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("imported", "says"),
    [
        ("spark_integration", 'spark_integration needs pyarrow: pip install "noted-time[spark]"'),
        (
            "writer_client.SegmentLogWriter",
            'writer_client.SegmentLogWriter needs pyarrow: pip install "noted-time[files]"',
        ),
        (
            "writer_client.KafkaNotedProducer",
            (
                "writer_client.KafkaNotedProducer needs confluent_kafka: "
                'pip install "noted-time[kafka]"'
            ),
        ),
    ],
)
def test_an_import_says_which_extra_it_needs(
    installed: Installed, tmp_path: Path, imported: str, says: str
) -> None:
    """It is an `ImportError`, so that what is optional can be left out."""
    package, _, name = imported.partition(".")
    program = f"import {package}; {imported if name else ''}"
    done = installed.run("-c", program, cwd=tmp_path)

    assert done.stderr.rpartition("\nImportError: ")[2].strip() == says


@pytest.mark.parametrize("arguments", [[], ["serve"], ["--version"], ["wait", "s", "5"]])
@pytest.mark.parametrize("start", ["command", "noted_time", "controller"])
def test_the_command_says_what_to_install(
    installed: Installed, tmp_path: Path, start: str, arguments: list[str]
) -> None:
    """In one sentence with status 2, whatever is asked of it and however it is started."""
    words = [str(installed.command)] if start == "command" else ["-m", start]
    done = installed.run(*words, *arguments, cwd=tmp_path)

    says = (
        "noted-time: the command line needs more (No module named 'typer'): "
        'pip install "noted-time[cli]", or "noted-time[controller]" to serve\n'
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", says)


def test_the_extra_cli_calls_and_does_not_serve(installed: Installed, tmp_path: Path) -> None:
    """A machine that only waits has no server and no database; `serve` names what it needs."""
    link_needs(installed.wheel, tmp_path / "needed", extra="cli")
    path = f"{installed.command.parents[1]}{os.pathsep}{tmp_path / 'needed'}"
    own = installed._replace(path=path)
    waits = ["wait", "s", "5", "--timeout", "0s", "--url", "http://127.0.0.1:9"]
    waited = own.run(str(own.command), *waits, cwd=tmp_path)
    named = own.run(str(own.command), "stream", "list", "--url", "http://127.0.0.1:9", cwd=tmp_path)
    served = own.run(str(own.command), "serve", cwd=tmp_path)

    assert not [each for each in ("fastapi", "sqlalchemy") if (tmp_path / "needed" / each).exists()]
    assert (waited.returncode, "s is not known to be complete to 5" in waited.stderr) == (69, True)
    assert (named.returncode, "no answer from http://127.0.0.1:9" in named.stderr) == (1, True)
    says = ': pip install "noted-time[controller]"\n'
    assert (served.returncode, served.stderr.endswith(says)) == (2, True)


def test_the_extra_controller_is_all_that_the_command_needs(
    installed: Installed, tmp_path: Path
) -> None:
    """It starts, migrates, and calls; `[files]` and `[spark]` are not needed for it."""
    link_needs(installed.wheel, tmp_path / "needed", extra="controller")
    path = f"{installed.command.parents[1]}{os.pathsep}{tmp_path / 'needed'}"
    own = installed._replace(path=path)
    version = own.run(str(own.command), "--version", cwd=tmp_path)
    migrated = own.run(str(own.command), "migrate", cwd=tmp_path)
    served = own.run("-c", "import controller.api.server, controller.store.open", cwd=tmp_path)

    said = [(done.returncode, done.stderr) for done in (version, migrated, served)]
    assert said == [(0, ""), (0, ""), (0, "")]
