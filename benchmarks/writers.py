"""Many writers that note in permuted order, and checks of their notes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from benchmarks.figures import WrongResult
from benchmarks.load import post
from benchmarks.stored import marks_stored, offsets_stored

if TYPE_CHECKING:
    from benchmarks.load import LoadResult

BASE_MS = 1_700_000_000_000
STEP_MS = 1_000
SEGMENTS = 16
OK = b"200"
AT_FIRST = 100


class Writers:
    """Writers of one stream; the n-th note of each is at offset n of its segment.

    So stored offsets add up to the posted notes. A writer keeps to one connection, or a later note
    could overtake an earlier one.
    """

    def __init__(self, stream: str, count: int) -> None:
        self.stream = stream
        self.posted = 0
        self._accepted = 0
        self._noted = [0] * count
        self._random = random.Random(count)  # noqa: S311 - the same order in every run

    def __len__(self) -> int:
        return len(self._noted)

    def scripts(self, connections: int, requests: int, notes: int) -> list[list[bytes]]:
        """Return each connection's next requests, with `notes` notes each."""
        return [
            self._script(range(first, len(self), connections), requests, notes)
            for first in range(connections)
        ]

    def first_notes(self) -> list[list[bytes]]:
        """Return the script of one connection with a note of each, many a request."""
        notes_each = min(AT_FIRST, len(self))
        return self.scripts(1, -(-len(self) // notes_each), notes_each)

    def check(self, load_result: LoadResult, database: str) -> None:
        """Raise `WrongResult` unless each note was accepted and stored, and marks follow."""
        self._accepted += load_result.accepted
        if set(load_result.statuses) != {OK}:
            raise WrongResult(f"unexpected statuses: {dict(load_result.statuses)}")
        stored_offsets = offsets_stored(database, self.stream)
        if not self.posted == self._accepted == stored_offsets:
            problem = (
                f"{self.posted} notes posted, but {self._accepted} accepted, "
                f"{stored_offsets} stored"
            )
            raise WrongResult(problem)
        if min(self._noted) > 0 and not marks_stored(database, self.stream):
            raise WrongResult("all writers noted, but no mark was made")

    def _script(self, writers: range, requests: int, notes: int) -> list[bytes]:
        order: list[int] = []
        while len(order) < requests * notes:
            order += self._random.sample(writers, len(writers))
        path = f"/v1/streams/{self.stream}/notes"
        return [
            post(path, self._body(order[begin : begin + notes]))
            for begin in range(0, requests * notes, notes)
        ]

    def _body(self, writers: list[int]) -> bytes:
        return b'{"notes":[%b]}' % b",".join([self._note(writer) for writer in writers])

    def _note(self, writer: int) -> bytes:
        self.posted += 1
        count = self._noted[writer] = self._noted[writer] + 1
        time = BASE_MS + count * STEP_MS + writer % STEP_MS
        return b'{"writer":"writer-%06d","time":%d,"position":{"%d":%d},"max_time":%d}' % (
            writer,
            time,
            writer % SEGMENTS,
            count,
            time,
        )
