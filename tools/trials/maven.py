"""Fetches jars of a Maven repository, and checks their checksums."""

from __future__ import annotations

import hashlib
import sys
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from noted_time import Rejected, Unreachable

AT_ONCE = 8
PATIENCE_S = 20.0
"""How long a repository may send nothing: without a network, tests are to start soon."""

ELSEWHERE = "name a repository that can be reached by --repository URL"


class Jar(NamedTuple):
    """A jar of a Maven repository, and the SHA-256 of its bytes."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"

    def is_in(self, directory: Path) -> bool:
        """Return whether the directory has it, unchanged."""
        file = directory / self.file
        return file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == self.sha256


def list_jars(file: Path) -> tuple[Jar, ...]:
    """Return the jars of a file: group, name, version and SHA-256 of each."""
    return tuple(Jar(*line.split()) for line in file.read_text().splitlines())


def list_jars_by_release(file: Path) -> dict[str, list[Jar]]:
    """Return the jars of a file by Spark release, the first word of each line."""
    jars_by_release: dict[str, list[Jar]] = {}
    for line in file.read_text().splitlines():
        release, *jar = line.split()
        jars_by_release.setdefault(release, []).append(Jar(*jar))
    return jars_by_release


def find_jars(directory: Path, jars: Sequence[Jar]) -> list[str]:
    """Return the paths of jars in a directory, none if one is missing."""
    paths = [directory / jar.file for jar in jars]
    return [str(path) for path in paths] if all(path.exists() for path in paths) else []


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201


def fetch(jars: Sequence[Jar], directory: Path, *, repository: str | None = None) -> list[Path]:
    """Fetch the jars that the directory does not have unchanged, and return all paths.

    The default `repository` is Maven's central one. Raises `Unreachable` after `PATIENCE_S` of
    silence or an incomplete answer, and `Rejected` for a wrong checksum.
    """
    missing = [jar for jar in jars if not jar.is_in(directory)]
    if missing:
        say(f"Fetching {len(missing)} jars into {directory}, once.")
        directory.mkdir(parents=True, exist_ok=True)
        base = (repository or _central()).rstrip("/")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(partial(_fetch, base, directory), missing))
    return [directory / jar.file for jar in jars]


def _central() -> str:
    """Return the address of the central repository, from a client of it."""
    from maven_artifact import Downloader  # noqa: PLC0415 - most runs have all jars

    return str(Downloader().resolver.base)


def _fetch(base: str, directory: Path, jar: Jar) -> None:
    url = f"{base}/{jar.group.replace('.', '/')}/{jar.name}/{jar.version}/{jar.file}"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310 - as asked for
            content = answer.read()
    except OSError as error:
        raise Unreachable(f"{jar.file} could not be fetched ({error}): {ELSEWHERE}") from error
    if hashlib.sha256(content).hexdigest() != jar.sha256:
        raise Rejected(f"{jar.file}: checksum mismatch, it was not kept; check the repository")
    part = directory / f".{jar.file}.part"
    part.write_bytes(content)
    part.replace(directory / jar.file)
