"""Rows that marks name and the log does not have: deleted, or not in this log at all."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spark_integration.admission import check_there

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_integration.log_files import LogFile
    from spark_integration.release import Releaser

    Files = Mapping[int, list[LogFile]]

log = logging.getLogger("noted_time.spark")

MISSING = (
    "%s: the last mark names segment %d up to offset %d, and the log under %s has it up to %d: the "
    "watermark does not advance past the marks before"
)


class MissingRows:
    """Reports missing rows and decides which can be skipped."""

    def __init__(self, subject: str, root: str) -> None:
        """Speak of `subject`, whose log is under `root`."""
        self._subject = subject
        self._root = root
        self._told: set[int] = set()

    def gone(self, files: Files, begun: Mapping[int, int], known: Releaser) -> dict[int, int]:
        """Return the ends of the sealed segments of which the log has no file any more.

        Nothing will be appended to them, so they count as read; `known` has the marks, scale events
        and seal taken before `files` were listed. Raises `Rejected` where a query has read a
        segment up to `begun`, and rows from there on were deleted.
        """
        gone = {s: end for s, end in known.final.items() if not files.get(s)}
        for segment, offset in begun.items():
            check_there(files.get(segment, []), offset, gone.get(segment, 0))
        return gone

    def tell(self, files: Files, gone: Mapping[int, int], known: Releaser) -> None:
        """Log, once for each segment, that the last mark cannot be reached."""
        last = known.history.last
        named = {} if last is None else last.cut.offsets
        ends = {segment: run[-1].end for segment, run in files.items() if run}
        missing = {s: end for s, end in named.items() if s not in gone and end > ends.get(s, 0)}
        for segment in sorted(missing.keys() - self._told):
            end, there = missing[segment], ends.get(segment, 0)
            log.warning(MISSING, self._subject, segment, end, self._root, there)
        self._told = set(missing)
