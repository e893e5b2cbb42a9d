"""The Pythons of this machine, and the supported releases."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.release.building import metadata

OLDEST = (3, 11)
ASK = """
import json, ssl, sys, venv
print(json.dumps(sys.version_info[:3] if sys.version_info.releaselevel == "final" else []))
"""
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
NAMED = re.compile(r"python3\.\d+(\.exe)?")


def list_supported() -> list[str]:
    """Return the releases that the classifiers name, such as 3.11."""
    releases = []
    for classifier in metadata()["classifiers"]:
        match = CLASSIFIER.fullmatch(classifier)
        if match:
            releases.append(match[1])
    return releases


def find_untried(
    wanted_releases: Iterable[str], tried_releases: Iterable[str], without: Iterable[str]
) -> list[str]:
    """Return the releases that were not tried or left out by name.

    >>> find_untried(["3.11", "3.12", "3.13"], ["3.11"], without=["3.13"])
    ['3.12']
    """
    known_releases = {*tried_releases, *without}
    return [release for release in wanted_releases if release not in known_releases]


def find_pythons() -> dict[str, Path]:
    """Return the newest Python of each release from 3.11 on: of pyenv, of the PATH, and this."""
    newest: dict[tuple[int, ...], tuple[tuple[int, ...], Path]] = {}
    for program in _candidates():
        version = _version(program)
        release = version[:2]
        if release >= OLDEST and version > newest.get(release, ((), program))[0]:
            newest[release] = (version, program)
    programs = {}
    for major, minor in sorted(newest):
        _, program = newest[major, minor]
        programs[f"{major}.{minor}"] = program
    return programs


def _candidates() -> Iterator[Path]:
    yield Path(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob("versions/3.*/bin/python"))
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        named_programs = (
            program
            for program in Path(directory).glob("python3.*")
            if NAMED.fullmatch(program.name)
        )
        yield from sorted(named_programs)


def _version(program: Path) -> tuple[int, ...]:
    """Ask a Python for its version; nothing if it does not run, as a shim of pyenv may not."""
    words = [str(program), "-I", "-c", ASK]
    try:
        answer = subprocess.run(words, capture_output=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(json.loads(answer))
