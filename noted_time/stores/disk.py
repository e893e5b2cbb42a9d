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
        if path.is_dir():
            return [entry_path.name for entry_path in path.iterdir()]
        return []

    def watch(
        self, directory: LogPath, monotonic: Seconds, can_resume: CanResume | None = None
    ) -> Listing:
        return _CachedListing(str(directory), monotonic, is_deep=can_resume is not None)

    def open(self, path: LogPath, version: Version | None = None) -> LogPath:  # noqa: ARG002
        return path

    def identify(self, path: LogPath) -> Hashable:
        with suppress(FileNotFoundError):
            status = os.stat(str(path))  # noqa: PTH116 - a third of Path.stat's cost
            return status.st_ino, status.st_size, status.st_mtime_ns
        return None

    def prepare(self, directory: LogPath) -> None:
        _make_directories(Path(str(directory)))

    @contextmanager
    def create(self, directory: LogPath, write: Callable[[BinaryIO], object]) -> Iterator[Publish]:
        hidden_path = Path(str(directory)) / f".{uuid4().hex}.parquet.tmp"

        def publish(path: LogPath) -> bool:
            with suppress(FileExistsError):
                os.link(hidden_path, str(path))
                return True
            return False

        try:
            with hidden_path.open("xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            yield publish
        finally:
            with suppress(FileNotFoundError):
                hidden_path.unlink()

    def sync(self, directory: LogPath) -> None:
        sync_directory(directory)


def sync_directory(directory: LogPath) -> None:
    handle = os.open(str(directory), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _CachedListing:
    __slots__ = ("_changed_ns", "_is_deep", "_monotonic", "_path", "_seen_s", "is_settled")

    def __init__(self, path: str, monotonic: Seconds, *, is_deep: bool) -> None:
        self._path = path
        self._monotonic = monotonic
        self._is_deep = is_deep
        self._changed_ns = -1
        self._seen_s = 0.0
        self.is_settled = False

    def fetch(self) -> None:
        pass

    def forget(self) -> None:
        pass

    def list_changes(self) -> Iterator[Names]:
        now_s = self._monotonic()
        try:
            changed_ns = os.stat(self._path).st_mtime_ns  # noqa: PTH116 - a third of Path.stat's cost
        except FileNotFoundError:
            self.is_settled = False
            raise
        if changed_ns != self._changed_ns:
            self._changed_ns = changed_ns
            self._seen_s = now_s
            self.is_settled = False
        if not self.is_settled:
            names = self.list_now()
            yield names
            # a deeper directory changes without this one
            is_flat = not any("/" in name for name in names)
            self.is_settled = is_flat and now_s - self._seen_s >= SETTLED_S

    def list_now(self) -> Names:
        """Return the entries; if deep, directories end with a slash and are followed by theirs."""
        if not self._is_deep:
            return dict.fromkeys(os.listdir(self._path))  # noqa: PTH208 - a third of scandir's cost
        names: list[str] = []
        for directory, subdirectories, files in os.walk(self._path, onerror=_raise_error):
            entries = (*files, *(f"{subdirectory}/" for subdirectory in subdirectories))
            names += (f"{directory}/{name}"[len(self._path) + 1 :] for name in entries)
        return dict.fromkeys(names)


def _raise_error(error: OSError) -> None:
    raise error


def _make_directories(directory: Path) -> None:
    if directory.is_dir():
        return
    _make_directories(directory.parent)
    with suppress(FileExistsError):
        directory.mkdir()
    sync_directory(directory.parent)
