"""How ./run makes, keeps and leaves alone the environment in .venv."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def clone(run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the script at an empty clone whose .venv is a link to nothing yet."""
    (tmp_path / "requirements.lock").write_text("one==1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    for name in ("LOCK", "VENV", "STAMP", "PYTHON"):
        place = tmp_path / getattr(run, name).relative_to(run.ROOT)
        monkeypatch.setattr(run, name, place)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def installs(
    run: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, ...]]:
    """Record what would be made and installed, without doing it."""
    done: list[tuple[str, ...]] = []

    def make_venv(_env: object) -> None:
        done.append(("venv",))
        (clone / ".venv").mkdir(exist_ok=True)

    monkeypatch.setattr(run, "make_venv", make_venv)
    monkeypatch.setattr(run, "pip", lambda _env, *arguments: done.append(arguments))
    monkeypatch.setattr(run, "runs", lambda _env, _probe: (clone / ".venv").exists())
    return done


def test_a_first_run_makes_the_venv_and_installs_by_hash(
    run: ModuleType, clone: Path, installs: list[tuple[str, ...]]
) -> None:
    """First the locked packages, then this project on top of them."""
    run.install_packages({})

    assert installs == [
        ("venv",),
        ("--require-hashes", "-r", str(clone / "requirements.lock")),
        ("--quiet", "--no-deps", "--no-build-isolation", "--editable", str(clone)),
    ]


@pytest.mark.usefixtures("clone")
def test_a_second_run_installs_nothing(run: ModuleType, installs: list[tuple[str, ...]]) -> None:
    """The stamp records that this lock is installed."""
    run.install_packages({})
    installs.clear()

    run.install_packages({})

    assert installs == []


def test_a_changed_lock_is_installed_into_the_same_venv(
    run: ModuleType, clone: Path, installs: list[tuple[str, ...]]
) -> None:
    """Half a gigabyte is not fetched again for one new version."""
    run.install_packages({})
    installs.clear()
    (clone / "requirements.lock").write_text("one==2\n")

    run.install_packages({})

    assert [words[0] for words in installs] == ["--require-hashes", "--quiet"]


def test_a_clone_that_has_moved_gets_a_new_venv(
    run: ModuleType, clone: Path, installs: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scripts in a venv name the place they were made for."""
    run.install_packages({})
    installs.clear()
    monkeypatch.setattr(run, "ROOT", clone / "moved")
    shutil.copytree(clone, clone / "moved", ignore=shutil.ignore_patterns("moved"))

    run.install_packages({})

    assert installs[0] == ("venv",)


@pytest.mark.usefixtures("installs")
def test_an_interrupted_install_is_done_again(
    run: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a finished install leaves a stamp."""

    def interrupted(_env: object, *_arguments: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "pip", interrupted)

    with pytest.raises(KeyboardInterrupt):
        run.install_packages({})

    assert not (clone / ".venv" / "installed.stamp").exists()


def test_no_other_spark_or_python_gets_in(run: ModuleType) -> None:
    """A data engineer's shell often sets SPARK_HOME, which would win over the locked PySpark."""
    inherited = {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "SPARK_HOME": "/opt/spark",
        "PYSPARK_PYTHON": "python2",
        "PYTHONPATH": "/elsewhere",
    }

    assert run.clean_environment(inherited) == {
        "PATH": f"{run.BIN}{os.pathsep}/bin",
        "HOME": "/home/ada",
        "VIRTUAL_ENV": str(run.VENV),
        "PYSPARK_PYTHON": str(run.PYTHON),
        "PYSPARK_DRIVER_PYTHON": str(run.PYTHON),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PIP_USER": "0",
    }


def test_an_old_python_is_refused_with_the_remedy(
    run: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """To start it with a newer one."""
    with pytest.raises(SystemExit):
        run.require_python((3, 9))

    assert "needs Python 3.11 or newer and this is 3.9" in capsys.readouterr().err


def test_help_names_every_command(run: ModuleType, root: Path, tmp_path: Path) -> None:
    """Help needs no environment and works from anywhere."""
    said = subprocess.check_output(
        [sys.executable, root / "run", "--help"], cwd=tmp_path, text=True
    )

    assert [name for name in (*run.PROGRAMS, *run.CHORES) if f"\n  {name} " not in said] == []


def test_an_unknown_command_is_refused_with_the_known(root: Path) -> None:
    """A slip of the pen installs nothing."""
    command = [sys.executable, str(root / "run"), "tset"]

    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, done.stderr.startswith("run: there is no command 'tset'")) == (2, True)
