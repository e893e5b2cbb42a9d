"""The event times of what is new in a file log, from the footers of its files."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from noted_time.values import Rejected, Unreachable
from writer_client.arrow_rows import largest_time
from writer_client.log_ends import LogEnds, NewFile

if TYPE_CHECKING:
    from os import PathLike


class LogTimes:
    """What a look finds in a file log: its ends, and the newest event time of each segment.

    `field` is the column with the event times: int64 ms, or a timestamp of any unit. Their largest
    comes from the statistics in a file's footer, or from its rows where it has none. Each file is
    read once; the first look reads the footers of all that are there.
    """

    def __init__(self, root: str | PathLike[str], stream: str, field: str) -> None:
        """Look at nothing yet; raises `InvalidName` for the stream."""
        self._ends = LogEnds(root, stream)
        self._field = field
        self._unread: deque[NewFile] = deque()

    def __call__(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the ends of the segments, and the newest time (ms) in the new files of each.

        Raises as `LogEnds`, and `Rejected` naming a file without such a column; what was not read
        is read by the next call.
        """
        self._unread.extend(self._ends.new_files())
        ends = self._ends.ends
        newest: dict[int, int] = {}
        read: list[NewFile] = []
        try:
            while self._unread:
                file = self._unread.popleft()
                read.append(file)
                time = self._largest_in(file)
                if time is not None:
                    newest[file.segment] = max(time, newest.get(file.segment, time))
        except Exception:
            self._unread.extendleft(reversed(read))
            raise
        return ends, newest

    def _largest_in(self, file: NewFile) -> int | None:
        path = file.path
        try:
            with pq.ParquetFile(path) as opened:
                if self._field not in opened.schema_arrow.names:
                    raise Rejected(f"{path} has no column {self._field}")
                return largest_time(opened, self._field)
        except FileNotFoundError:  # removed meanwhile, with its rows
            return None
        except pa.ArrowException as error:
            raise Rejected(f"{path} is not a complete Parquet file: {error}") from error
        except OSError as error:
            raise Unreachable(f"{path} cannot be read: {error}") from error
