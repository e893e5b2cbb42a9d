"""The calls of a file log to its store: directories, or a bucket."""

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
"""The entries of a directory. A file of a directory has no version."""


class Listing(Protocol):
    """The entries of one directory."""

    def fetch(self) -> None:
        """Send the requests for the next list, so that several lists can be fetched together."""

    def list_changes(self) -> Iterator[Names]:
        """Yield all entries, unless they were processed and have not changed.

        Entries are processed once the caller asks for the next value.
        """

    def list_now(self) -> Names: ...


class LogStore(Protocol):
    """Directories, or a bucket of an object store.

    Raises `OSError`. An object store raises `Unreachable` or `Rejected` instead, and
    `FileNotFoundError` for a missing object.
    """

    def list_names(self, directory: LogPath) -> list[str]:
        """Return the names of files and directories, or none for a missing directory."""

    def watch(
        self, directory: LogPath, monotonic: Seconds, can_resume: CanResume | None = None
    ) -> Listing: ...

    def open(self, path: LogPath, version: Version | None = None) -> Any:  # noqa: ANN401 - a path or a file
        """Return a source for pyarrow. With a version, raises `Recreated` for another content."""

    def identify(self, path: LogPath) -> Hashable:
        """Return a value that changes with the file, or `None` if the file is missing."""

    def prepare(self, directory: LogPath) -> None:
        """Make the directory, durably."""

    def create(
        self, directory: LogPath, write: Callable[[BinaryIO], object]
    ) -> AbstractContextManager[Publish]:
        """Write a file that is not visible, and yield the function that publishes it.

        `write` must not write the same bytes for another file.
        """

    def sync(self, directory: LogPath) -> None:
        """Make the entries of the directory durable."""


Publish = Callable[[LogPath], bool]
"""Makes a complete file visible under a path; returns `False` if another file has the path."""

CanResume = Callable[[list[str]], bool]
"""Returns whether new names of a directory sort behind these names, which are in order."""
