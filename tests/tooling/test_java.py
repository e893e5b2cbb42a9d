"""How ./run finds a Java that can run Spark, or makes one that can."""

import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

posix = pytest.mark.skipif(os.name == "nt", reason="the wrapper is a shell script")


def script(path: Path, body: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake_java(home: Path, release: str) -> Path:
    """Write a java that claims to be this release, and return its home."""
    said = f"    java.home = {home}\n    java.specification.version = {release}"
    script(home / "bin" / "java", f"cat >&2 <<'END'\n{said}\nEND")
    return home


@posix
def test_java_home_comes_before_the_path(run: ModuleType, tmp_path: Path) -> None:
    """A user who sets JAVA_HOME means it."""
    home, other = fake_java(tmp_path / "a home", "17"), fake_java(tmp_path / "other", "21")
    env = {"JAVA_HOME": str(home), "PATH": f"{other / 'bin'}:{os.defpath}"}

    assert run.find_java(env) == str(home)


@posix
@pytest.mark.parametrize("release", ["11", "1.8"])
def test_an_old_java_home_gives_way_to_the_path(
    run: ModuleType, tmp_path: Path, release: str
) -> None:
    """Java 11 cannot run Spark, wherever it is; Java 8 called itself 1.8."""
    old, new = fake_java(tmp_path / "old", release), fake_java(tmp_path / "a new one", "21")
    env = {"JAVA_HOME": str(old), "PATH": f"{new / 'bin'}:{os.defpath}"}

    assert run.find_java(env) == str(new)


@posix
def test_a_java_that_fails_as_spark_starts_it_does_not_count(
    run: ModuleType, tmp_path: Path
) -> None:
    """A runtime without the vector module refuses to start under Spark."""
    script(tmp_path / "bin" / "java", "echo 'Module jdk.incubator.vector not found'; exit 1")

    assert run.find_java({"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path / "empty")}) is None


@posix
def test_the_wrapper_drops_the_vector_module_and_nothing_else(
    run: ModuleType, tmp_path: Path
) -> None:
    """Arguments keep their order and their spaces, and the path may have its own."""
    java = script(tmp_path / "it's a runtime" / "java", """printf '<%s>' "$@" """)
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(run.java_wrapper(str(java)))
    command = ["sh", str(wrapper), "-cp", "a b", run.VECTOR_MODULE, "", "--add-modules=x", "$HOME"]

    said = subprocess.check_output(command, text=True)

    assert said == "<-cp><a b><><--add-modules=x><$HOME>"
