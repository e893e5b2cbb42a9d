"""Writers of all languages pass the conformance runner, and it finds each fault of a writer."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.__main__ import run_trials
from tests.conformance.trial import read_scripts
from tools.trials import classes, java, kafka
from tools.trials.maven import fetch

WRITERS = Path(__file__).parent / "writers"
HTTP = (sys.executable, str(WRITERS / "http_writer.py"))
ROOT = Path(__file__).resolve().parents[2]
GO = "/usr/local/go/bin/go"
"""Where it is if it is not on the path."""
PYTHON = (sys.executable, str(WRITERS / "python_writer.py"))


def list_faults() -> dict[str, tuple[str, str]]:
    """Return the trial that finds each fault of the scripts, and the account of it."""
    faults = {}
    for script in read_scripts():
        for fault, account in script.faults.items():
            faults[fault] = (script.name, account)
    return faults


FAULTS = list_faults()


def find_broken(command: Sequence[str], name_part: str = "") -> dict[str, str]:
    """Return the trials that a writer program fails, with what broke."""
    chosen_scripts = [script for script in read_scripts() if name_part in script.name]
    return {
        trial.name: trial.broken for trial in run_trials(command, chosen_scripts) if trial.broken
    }


def tool(name: str, *elsewhere: str) -> str:
    """Return the path of a program. The test is skipped without it."""
    for program in (name, *elsewhere):
        path = shutil.which(program)
        if path is not None:
            return path
    pytest.skip(f"{name} is not installed")


def folder(language: str) -> Path:
    """Return the folder of a language's writer. The test is skipped without it."""
    path = ROOT / "integrations" / language
    if not path.exists():
        pytest.skip(f"integrations/{language} is missing")
    return path


def find_http(_: Path) -> Sequence[str]:
    return HTTP


def find_python(_: Path) -> Sequence[str]:
    return PYTHON


def build_java(directory: Path) -> list[str]:
    """Compile the interceptor and its program."""
    if not kafka.is_installed() or java.compiler() is None:
        pytest.skip(f"{java.MISSING}, and Kafka's client: ./run kafka --fetch")
    sources = sorted((ROOT / "java").rglob("*.java"))
    java.compile_into(directory, [*sources, WRITERS / "JavaWriter.java"])
    (client,) = fetch(java.CLIENT, kafka.HOME / "broker")
    path = f"{directory}{os.pathsep}{client}"
    return [classes.java(), "-cp", path, "notedtime.JavaWriter"]


def build_go(directory: Path) -> list[str]:
    """Compile the program of `go run ./cmd/conformance`, which would compile at each start."""
    program = str(directory / "writer")
    words = [tool("go", GO), "build", "-o", program, "./cmd/conformance"]
    subprocess.run(words, cwd=folder("go"), check=True)
    return [program]


@cache
def build_package() -> Path:
    """Return a compiled copy of the TypeScript package. The test is skipped without tsc."""
    node_modules = tempfile.TemporaryDirectory(prefix="typescript-")
    atexit.register(node_modules.cleanup)
    package = Path(node_modules.name) / "writer"
    ignored_names = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(folder("typescript"), package, ignore=ignored_names)
    npm = tool("npm")
    install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    install_process = subprocess.run(
        install, cwd=package, check=False, capture_output=True, text=True
    )
    if install_process.returncode != 0:
        pytest.skip(f"npm cannot install tsc: {install_process.stderr}")
    subprocess.run([npm, "run", "build"], cwd=package, check=True)
    return package


def build_typescript(_: Path) -> list[str]:
    return [tool("node"), str(build_package() / "dist" / "conformance.js")]


BUILDS: dict[str, Callable[[Path], Sequence[str]]] = {
    "http": find_http,
    "python": find_python,
    "java": build_java,
    "go": build_go,
    "typescript": build_typescript,
}


@pytest.mark.parametrize("language", BUILDS)
def test_a_writer_passes(language: str, tmp_path: Path) -> None:
    assert find_broken(BUILDS[language](tmp_path)) == {}


@pytest.mark.parametrize("words", [("vet", "./..."), ("test", "./...")])
def test_the_go_module_passes_its_own_tests(words: Sequence[str]) -> None:
    process = subprocess.run([tool("go", GO), *words], cwd=folder("go"), check=False)
    assert process.returncode == 0


def test_the_typescript_package_passes_its_own_tests() -> None:
    process = subprocess.run([tool("npm"), "test"], cwd=build_package(), check=False)
    assert process.returncode == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    trial, account = FAULTS[fault]
    broken = find_broken([*HTTP, "--fault", fault], trial)

    assert account in broken.get(trial, "")
