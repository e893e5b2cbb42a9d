"""Files in directories.

File systems have coarse clocks, so a directory is unchanged only if it was listed two seconds after
its modification time was first seen.

A file is created under a hidden name, synced, and then linked under its own name. A link is atomic
and fails if the name exists.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from noted_time.stores.places import LogPath
from noted_time.stores.port import CanResume, Listing, Names, Publish, Seconds, Version

SETTLED_S = 2.0


class DirectoryStore:
    """The files below a directory."""

    def list_names(self, directory: LogPath) -> list[str]:
        path = Path(str(directory))
        return [each.name for each in path.iterdir()] if path.is_dir() else []

    def watch(
        self,
        directory: LogPath,
        monotonic: Seconds,
        can_resume: CanResume | None = None,  # noqa: ARG002 - a directory is listed whole
    ) -> Listing:
        return _CachedListing(str(directory), monotonic)

    def open(self, path: LogPath, version: Version | None = None) -> LogPath:  # noqa: ARG002
        return path

    def identify(self, path: LogPath) -> Hashable:
        with suppress(FileNotFoundError):
            about = os.stat(str(path))  # noqa: PTH116 - a third of Path.stat's cost
            return about.st_ino, about.st_size, about.st_mtime_ns
        return None

    def prepare(self, directory: LogPath) -> None:
        _make_directories(Path(str(directory)))

    @contextmanager
    def create(self, directory: LogPath, write: Callable[[BinaryIO], object]) -> Iterator[Publish]:
        hidden = Path(str(directory)) / f".{uuid4().hex}.parquet.tmp"

        def publish(path: LogPath) -> bool:
            with suppress(FileExistsError):
                os.link(hidden, str(path))
                return True
            return False

        try:
            with hidden.open("xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            yield publish
        finally:
            with suppress(FileNotFoundError):
                hidden.unlink()

    def sync(self, directory: LogPath) -> None:
        sync_directory(directory)


def sync_directory(directory: LogPath) -> None:
    handle = os.open(str(directory), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _CachedListing:
    __slots__ = ("_changed_ns", "_monotonic", "_path", "_seen_s", "is_settled")

    def __init__(self, path: str, monotonic: Seconds) -> None:
        self._path, self._monotonic = path, monotonic
        self._changed_ns, self._seen_s, self.is_settled = -1, 0.0, False

    def fetch(self) -> None:
        pass

    def list_changes(self) -> Iterator[Names]:
        now_s = self._monotonic()
        try:
            changed_ns = os.stat(self._path).st_mtime_ns  # noqa: PTH116 - a third of Path.stat's cost
        except FileNotFoundError:
            self.is_settled = False
            raise
        if changed_ns != self._changed_ns:
            self._changed_ns, self._seen_s, self.is_settled = changed_ns, now_s, False
        if not self.is_settled:
            yield self.list_now()
            self.is_settled = now_s - self._seen_s >= SETTLED_S

    def list_now(self) -> Names:
        return dict.fromkeys(os.listdir(self._path))  # noqa: PTH208 - names are all that is needed


def _make_directories(directory: Path) -> None:
    if directory.is_dir():
        return
    _make_directories(directory.parent)
    with suppress(FileExistsError):
        directory.mkdir()
    sync_directory(directory.parent)
