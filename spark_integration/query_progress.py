"""How far a query has read, from the offset log in its checkpoint.

Spark writes the end offsets of micro-batch N into ``<checkpoint>/offsets/N`` before it runs the
batch, and asks the sources where N + 1 ends after that. So everything up to the newest file's
offsets is read before any batch that is planned now, whether it was committed, is running or will
be run again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pyarrow import fs

from noted_time import Rejected
from spark_integration.offsets import is_of_log, is_of_marks

VERSION = "v1"
NO_OFFSET = "-"

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class QueryProgress:
    """The offset log of one query, followed batch by batch.

    `checkpoint` is the query's `checkpointLocation`: a path, or a URI that pyarrow can open.
    """

    checkpoint: str
    last: int = -1
    """The last batch that was planned, as of the last question."""

    def position(self, token: str, position_of: Callable[[Any], Mapping[K, V]]) -> Mapping[K, V]:
        """Return the position of the events whose marks come from the source named by `token`.

        Their source comes right after it in the offset log, as it does in the union. Empty while
        that source has no offset; raises `Rejected` if this is the log of another query, or if more
        sources follow the marks than the one that they cover.
        """
        _, *lines = self._newest()
        offsets = [None if line == NO_OFFSET else json.loads(line) for line in lines]
        for place, marks in enumerate(offsets, start=1):
            if is_of_marks(marks) and marks["token"] == token:
                events = _only_source(marks["noted_marks"], offsets[place:])
                return {} if events is None else position_of(events)
        raise _not_ours(self.checkpoint, "was written by another query")

    def query_id(self) -> str:
        """Return the id of the query, which stays the same across restarts."""
        files, directory = _open(self.checkpoint)
        try:
            text = files.open_input_stream(str(directory.parent / "metadata")).read().decode()
        except FileNotFoundError as error:
            raise _not_ours(self.checkpoint, "names no query") from error
        return str(json.loads(text)["id"])

    def watermark(self, batch_id: int) -> int | None:
        """Return the watermark in ms with which the running batch `batch_id` was planned.

        Operators of that batch emit what the watermark has passed. `None` if the query has none
        yet: Spark writes 0 then. Raises `Rejected` if the batch is not the last one planned.
        """
        metadata, *_ = self._newest()
        if self.last != batch_id:
            reason = f"is at batch {self.last}, and this is batch {batch_id}"
            raise _not_ours(self.checkpoint, reason)
        return json.loads(metadata)["batchWatermarkMs"] or None

    def _newest(self) -> list[str]:
        """Return what Spark wrote of the last planned batch: its metadata, then the offsets."""
        files, directory = _open(self.checkpoint)
        self.last = _newest(files, directory, self.last)
        if self.last < 0:
            raise _not_ours(self.checkpoint, "has no batch yet")
        text: str = files.open_input_stream(str(directory / str(self.last))).read().decode()
        version, *lines = text.split("\n")
        if version != VERSION:
            raise Rejected(f"offset log of {self.checkpoint} is {version!r}, not {VERSION!r}")
        return lines


def _not_ours(checkpoint: str, reason: str) -> Rejected:
    return Rejected(
        f"checkpoint_location={checkpoint!r} is not this query's checkpoint: it {reason}"
    )


def _only_source(stream: str, behind: Sequence[Any]) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the offset of the one source behind the marks, up to the next source of ours.

    A second source would be read under marks that say nothing of it, and its rows dropped as late.
    One that is merely joined cannot be distinguished from one that was put into a union.
    """
    events = list(takewhile(lambda offset: not (is_of_marks(offset) or is_of_log(offset)), behind))
    if len(events) != 1:
        raise Rejected(
            f"{len(events)} sources follow the marks of stream {stream!r}, which speak of one: "
            "call with_noted_watermark once for each source, then union or join the results; a "
            "source that needs no marks comes before them, as in other.join(timed)"
        )
    return events[0]


def _open(checkpoint: str) -> tuple[fs.FileSystem, PurePosixPath]:
    if urlsplit(checkpoint).scheme in {"", "file"}:
        return fs.LocalFileSystem(), PurePosixPath(urlsplit(checkpoint).path, "offsets")
    files, path = fs.FileSystem.from_uri(checkpoint)
    return files, PurePosixPath(path, "offsets")


def _newest(files: fs.FileSystem, directory: PurePosixPath, last: int) -> int:
    """Return the highest batch logged; `last` was found before and saves the listing."""
    if last < 0:
        listing = fs.FileSelector(str(directory), allow_not_found=True)
        names = (info.base_name for info in files.get_file_info(listing))
        last = max((int(name) for name in names if name.isdigit()), default=-1)
    while files.get_file_info(str(directory / str(last + 1))).type == fs.FileType.File:
        last += 1
    return last
