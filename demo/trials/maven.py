"""Fetch jars of a Maven repository by Python alone: `./run kafka` has no Spark, and so no Ivy."""

from __future__ import annotations

import hashlib
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from noted_time import Rejected, Unreachable

AT_ONCE = 8
ELSEWHERE = "name a repository that can be reached by --repository URL"


def fetch(
    listed: Path,
    directory: Path,
    *,
    repository: str | None,
    patience_s: float,
    say: Callable[[str], None],
) -> None:
    """Fetch the jars that a file lists, unless the directory has them unchanged.

    The file has group, name, version and SHA-256 of each. Without a `repository` it is Maven's
    central one. Raises `Unreachable` if it sends nothing for `patience_s`, or not all of them, and
    `Rejected` if one has another checksum, which is not kept.
    """
    jars = [line.split() for line in listed.read_text().splitlines()]
    missing = [jar for jar in jars if not _is_in(directory, jar)]
    if not missing:
        return
    say(f"Fetching {len(missing)} jars into {directory}, once.")
    directory.mkdir(parents=True, exist_ok=True)
    base = (repository or _central()).rstrip("/")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(partial(_fetch, base, directory, patience_s), missing))


def _central() -> str:
    """Return the address of the central repository, which a client of it knows."""
    from maven_artifact import Downloader  # noqa: PLC0415 - in the environment of ./run kafka alone

    return str(Downloader().resolver.base)


def _file(jar: Sequence[str]) -> str:
    _group, name, version, _checksum = jar
    return f"{name}-{version}.jar"


def _is_in(directory: Path, jar: Sequence[str]) -> bool:
    file = directory / _file(jar)
    return file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == jar[3]


def _fetch(base: str, directory: Path, patience_s: float, jar: Sequence[str]) -> None:
    group, name, version, checksum = jar
    url = f"{base}/{group.replace('.', '/')}/{name}/{version}/{_file(jar)}"
    try:
        with urllib.request.urlopen(url, timeout=patience_s) as answer:  # noqa: S310 - as asked for
            content = answer.read()
    except OSError as error:
        raise Unreachable(f"{_file(jar)} could not be fetched ({error}): {ELSEWHERE}") from error
    if hashlib.sha256(content).hexdigest() != checksum:
        raise Rejected(f"{_file(jar)}: checksum mismatch, it was not kept; check the repository")
    part = directory / f".{_file(jar)}.part"
    part.write_bytes(content)
    part.replace(directory / _file(jar))
