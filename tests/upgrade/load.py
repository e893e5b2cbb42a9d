"""Real clients under load, and the outcomes of their calls."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Self

from noted_time import NotedTimeError
from reader_client import ReaderClient
from tools.trials.waiting import PATIENCE_S, wait_until
from writer_client import WriterClient

PAUSE_S = 0.1
LONGEST_S = 300.0


class Noted(NamedTuple):
    """An acknowledged time of a stream."""

    stream: str
    time: int
    at: float


class Load:
    """For each stream a writer notes 1, 2, 3 and so on, and a reader follows the marks.

    Each time is durable before the next one. The end of the block ends them.
    """

    def __init__(self, urls: str, streams: Sequence[str]) -> None:
        """Start them."""
        self.noted: list[Noted] = []
        self.read: dict[str, list[tuple[int, int]]] = {stream: [] for stream in streams}
        self._urls = urls
        self._ending = threading.Event()
        self._threads = list[threading.Thread]()
        for target in (self._write, self._read):
            for stream in streams:
                thread = threading.Thread(target=target, args=(stream,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()

    def _write(self, stream: str) -> None:
        with WriterClient(stream, "w", controller=self._urls, timeout_ms=600_000) as client:
            noted_time = 0
            while not self._ending.is_set():
                noted_time += 1
                client.note_time(noted_time, {0: 10 * noted_time})
                flush(client)
                self.noted.append(Noted(stream, noted_time, time.monotonic()))
                time.sleep(PAUSE_S)
            client.finish(timeout=LONGEST_S)

    def _read(self, stream: str) -> None:
        with ReaderClient(stream, controller=self._urls) as client:
            last = 0
            while not self._ending.is_set():
                for mark in client.marks(last):
                    self.read[stream].append((mark.seq, mark.lower))
                    last = mark.seq
                time.sleep(PAUSE_S)

    def end(self) -> None:
        """Let the writers finish, and wait for them."""
        self._ending.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def wait_for_progress(self, since: float) -> None:
        """Wait until each stream has three more acknowledged notes after a moment."""

        def has_progress() -> bool:
            return all(len(moments) >= 3 for moments in self._moments(since, time.monotonic()))

        wait_until(has_progress)

    def last_acknowledged(self) -> dict[str, int]:
        """Return the last time of each stream's writer that was acknowledged."""
        return {note.stream: note.time for note in self.noted}

    def pause(self, start: float, end: float) -> float:
        """Return the longest time between acknowledged notes of a writer in this interval."""
        longest_s = 0.0
        for moments in self._moments(start, end):
            for before, after in pairwise([start, *moments, end]):
                longest_s = max(longest_s, after - before)
        return longest_s

    def _moments(self, start: float, end: float) -> Iterator[list[float]]:
        """Yield when the notes of each stream were acknowledged between two moments."""
        moments = defaultdict[str, list[float]](list)
        for note in self.noted:
            if start < note.at <= end:
                moments[note.stream].append(note.at)
        return iter(moments[stream] for stream in self.read)


def flush(client: WriterClient) -> None:
    """Wait until the notes are durable, through pauses of any length."""
    until = time.monotonic() + LONGEST_S
    while True:
        try:
            client.flush(timeout=10)
        except NotedTimeError:
            if time.monotonic() > until:
                raise
        else:
            return
