"""How far a query has read, from the offset log in its checkpoint.

Spark writes the end offsets of micro-batch N into ``<checkpoint>/offsets/N`` before it runs the
batch, and asks the sources where N + 1 ends after that. So whatever the newest file names is read
before any batch that is planned now, whether it was committed, is running or will be run again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyarrow import fs

from noted_time import Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_integration.positions import PositionOf

VERSION = "v1"
NO_OFFSET = "-"


@dataclass(slots=True)
class QueryProgress:
    """The offset log of one query, followed batch by batch.

    `checkpoint` is the query's `checkpointLocation`: a path, or a URI that pyarrow can open.
    """

    checkpoint: str
    position_of: PositionOf
    _last: int = -1

    def position(self, token: str) -> Mapping[int, int]:
        """Return how far the events are read whose marks come from the source named by `token`.

        Their source stands right behind it in the offset log, as it does in the union. Empty
        before the first batch; raises `Rejected` where this is the log of another query.
        """
        files, directory = _open(self.checkpoint)
        self._last = _newest(files, directory, self._last)
        if self._last < 0:
            raise self._not_ours("has no batch yet")
        text = files.open_input_stream(str(directory / str(self._last))).read().decode()
        return self._position_in(text, token)

    def _position_in(self, text: str, token: str) -> Mapping[int, int]:
        version, _, *offsets = text.split("\n")
        if version != VERSION:
            raise Rejected(f"offset log of {self.checkpoint} is {version!r}, not {VERSION!r}")
        for marks, events in pairwise(offsets):
            if marks != NO_OFFSET and _token(json.loads(marks)) == token:
                return {} if events == NO_OFFSET else self.position_of(json.loads(events))
        raise self._not_ours("was written by another query")

    def _not_ours(self, reason: str) -> Rejected:
        return Rejected(f"progress={self.checkpoint!r} is not this query's checkpoint: it {reason}")


def _token(offset: Any) -> object:  # noqa: ANN401 - whatever JSON holds
    return offset.get("token") if isinstance(offset, dict) else None


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
