"""Many writers that note in permuted order, and how their notes are found again afterwards."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from benchmarks.figures import WrongResult
from benchmarks.load import post
from benchmarks.stored import marks_stored, offsets_stored

if TYPE_CHECKING:
    from benchmarks.load import Answered

BASE_MS = 1_700_000_000_000
STEP_MS = 1_000
SEGMENTS = 16
OK = b"200"
AT_FIRST = 100


class Writers:
    """Writers of one stream; the n-th note of each is at offset n of each segment it names.

    So the offsets that are stored add up to the notes that were posted, whatever was coalesced. A
    writer keeps to one connection, or a later note could overtake an earlier one and be refused.
    """

    def __init__(self, stream: str, count: int, segments: int = 1) -> None:
        """Begin before the first note, each of which names so many segments."""
        self.stream = stream
        self.posted = 0
        self.segments = segments
        self._accepted = 0
        self._noted = [0] * count
        self._random = random.Random(count)  # noqa: S311 - the same order in every run

    def __len__(self) -> int:
        return len(self._noted)

    def scripts(self, connections: int, requests: int, notes: int) -> list[list[bytes]]:
        """Return for each connection its next requests, each of so many notes."""
        return [
            self._script(range(first, len(self), connections), requests, notes)
            for first in range(connections)
        ]

    def first_notes(self) -> list[list[bytes]]:
        """Return the script of one connection by which all note at least once, many a request."""
        each = min(AT_FIRST, len(self))
        return self.scripts(1, -(-len(self) // each), each)

    def check(self, answered: Answered, database: str, *, marks: bool = True) -> None:
        """Raise `WrongResult` unless each note was accepted and is stored, and marks follow."""
        self._accepted += answered.accepted
        check_statuses(answered)
        stored = offsets_stored(database, self.stream) // self.segments
        check_stored(self.posted, self._accepted, stored)
        if marks and self.all_noted and not marks_stored(database, self.stream):
            raise WrongResult("all writers noted, yet there is no mark")

    @property
    def all_noted(self) -> bool:
        """Whether each writer has noted."""
        return min(self._noted) > 0

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
        named = [b'"%d":%d' % (writer % SEGMENTS + n, count) for n in range(self.segments)]
        return b'{"writer":"writer-%06d","time":%d,"position":{%b},"max_time":%d}' % (
            writer,
            time,
            b",".join(named),
            time,
        )


class Crowd:
    """Writers of several streams, each with as many, over as many connections."""

    def __init__(self, name: str, streams: int, count: int) -> None:
        """Begin before the first note."""
        self._accepted = 0
        self._writers = [Writers(f"{name}-{n}", count // streams) for n in range(streams)]

    def __len__(self) -> int:
        return sum(map(len, self._writers))

    @property
    def streams(self) -> list[str]:
        """The names of the streams."""
        return [writers.stream for writers in self._writers]

    def scripts(self, connections: int, requests: int) -> list[list[bytes]]:
        """Return for each connection its next requests, each of a single note of one stream."""
        each = connections // len(self._writers)
        return [
            script for writers in self._writers for script in writers.scripts(each, requests, 1)
        ]

    def check(self, answered: Answered, database: str) -> None:
        """Raise `WrongResult` unless each note was accepted and is stored, and marks follow."""
        self._accepted += answered.accepted
        check_statuses(answered)
        posted = sum(writers.posted for writers in self._writers)
        check_stored(posted, self._accepted, sum(offsets_stored(database, s) for s in self.streams))
        for writers in self._writers:
            if writers.all_noted and not marks_stored(database, writers.stream):
                raise WrongResult(f"all writers of {writers.stream} noted, yet there is no mark")


def check_statuses(answered: Answered) -> None:
    """Raise `WrongResult` where a status came that is not 200."""
    if set(answered.statuses) != {OK}:
        raise WrongResult(f"unexpected statuses: {dict(answered.statuses)}")


def check_stored(posted: int, accepted: int, stored: int) -> None:
    """Raise `WrongResult` unless all that was posted was accepted and is stored."""
    if not posted == accepted == stored:
        raise WrongResult(f"{posted} notes posted, but {accepted} accepted, {stored} stored")
