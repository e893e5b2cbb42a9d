"""The interface of a file log's store."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, NamedTuple, Protocol

from noted_time.stores.places import LogPath

Seconds = Callable[[], float]
"""A monotonic clock."""


class Version(NamedTuple):
    """The size and the ETag of an object; another content has another ETag."""

    size: int
    etag: str


Names = Mapping[str, Version | None]
"""The entries of a directory; files have no version."""


class Listing(Protocol):
    """The entries of one directory."""

    def fetch(self) -> None:
        """Fetch the next list already, so that several can be fetched together."""

    def forget(self) -> None:
        """List all entries the next time, also if only later ones would be listed."""

    def list_changes(self) -> Iterator[Names]:
        """Yield all entries, unless unchanged since the caller processed them (asked for more)."""

    def list_now(self) -> Names: ...


class LogStore(Protocol):
    """Directories, or a bucket of an object store.

    Directories raise `OSError`. A bucket raises `Unreachable`, `Rejected` or `FileNotFoundError`.
    """

    def list_names(self, directory: LogPath) -> list[str]:
        """Return the names, or none for a missing directory."""

    def watch(
        self, directory: LogPath, monotonic: Seconds, can_resume: CanResume | None = None
    ) -> Listing:
        """Return a listing, with `can_resume` also of inner directories, as names with slashes."""

    def open(self, path: LogPath, version: Version | None = None) -> Any:  # noqa: ANN401 - a path or a file
        """Return a source for pyarrow. Raises `Recreated` if it has another version."""

    def identify(self, path: LogPath) -> Hashable:
        """Return a value that changes with the file, or `None` if the file is missing."""

    def prepare(self, directory: LogPath) -> None:
        """Make the directory, durably."""

    def create(
        self, directory: LogPath, write: Callable[[BinaryIO], object]
    ) -> AbstractContextManager[Publish]:
        """Write a hidden file, and yield the function that publishes it.

        `write` must not write the same bytes for another file.
        """

    def sync(self, directory: LogPath) -> None:
        """Make the entries of the directory durable."""


Publish = Callable[[LogPath], bool]
"""Makes a file visible under a path, or returns `False` if another file has the path."""

CanResume = Callable[[list[str]], bool]
"""Returns whether new names of a directory sort behind these sorted names."""
