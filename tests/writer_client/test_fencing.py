"""Two processes under one writer name: the younger takes over, the older stops with an error."""

import json
from functools import partial
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from noted_time import Fenced
from tests.writer_client.scripted import URL, Scripted, accepted, results
from tools.trials.served import Served
from writer_client import SegmentLogWriter, WriterClient

HELD = {"session": "c07d", "label": "host-b:1017", "began_at": 1_795_169_136_901}
FENCED = {"status": "fenced", "last": HELD}


def process(root: Path, served: Served, stream: str) -> tuple[WriterClient, SegmentLogWriter]:
    """Start a process under the shared name; return its client and log."""
    client = WriterClient(served.url, stream, "UA")
    return client, SegmentLogWriter(root, "flights", client=client, event_time="time")


def lost(root: Path, served: Served, stream: str) -> list[int]:
    """Return the times of rows below the last lower but beyond its cut."""
    mark = served.call("GET", f"/{stream}/marks?after=0")["marks"][-1]
    times = pq.read_table(root / "flights" / "partition=0")["time"].to_pylist()
    return [time for time in times[mark["cut"].get("0", 0) :] if time < mark["lower"]]


def test_takeover_loses_no_row(tmp_path: Path, served: Served, stream: str) -> None:
    """Rows of the older process are covered; after the takeover it writes no more."""
    older, older_log = process(tmp_path, served, stream)
    older_log.append([{"time": 5}])
    older_log.note_time(5)
    older.flush()
    younger, younger_log = process(tmp_path, served, stream)
    older_log.append([{"time": 7}])
    younger_log.append([{"time": 6}])
    younger_log.note_time(10)
    younger.flush()
    older_log.note_time(7)

    for call in (older.flush, partial(older_log.append, [{"time": 8}]), older.close):
        with pytest.raises(Fenced):
            call()
    younger.finish()
    younger.close()
    assert (lost(tmp_path, served, stream), older_log.position) == ([], {0: 2})


@pytest.mark.parametrize("takeovers", [1, 2])
def test_successor_looks_up_the_ends_after_joining(tmp_path: Path, takeovers: int) -> None:
    """The first note with a time covers all rows appended before the takeover.

    A restored controller forgot the takeover, so the name is taken over again.
    """
    other = SegmentLogWriter(tmp_path, "flights", event_time="time")

    class Appending(Scripted):
        """The other process appends until the join is answered."""

        def _answer(self, request: httpx.Request) -> httpx.Response:
            if b'"time"' not in request.content:
                other.append([{"time": 8}, {"time": 3}])
            return super()._answer(request)

    joined = results(accepted(position={"0": 0}, took_over=[HELD["session"]]))
    network = Appending(*[joined, results(FENCED)] * (takeovers - 1), joined)
    client = WriterClient(URL, "s", "UA", transport=network)
    log = SegmentLogWriter(tmp_path, "flights", client=client, event_time="time")
    log.note_time(5)
    client.close()

    join, *_, noted = network.notes
    assert (join, noted["time"], noted["position"], noted["max_time"]) == (
        {"writer": "UA", "state": "live"},
        5,
        {"0": 2 * takeovers},
        8,
    )


def test_a_fenced_client_neither_notes_its_clock_nor_goes_idle() -> None:
    class AllFenced(Scripted):
        """Another process has the name from the first."""

        def _answer(self, request: httpx.Request) -> httpx.Response:
            self.planned = [results(*[FENCED] * len(json.loads(request.content)["notes"]))]
            return super()._answer(request)

    network = AllFenced()
    client = WriterClient(
        URL, "s", "UA", transport=network, automatically_note_time=True, idle_after_ms=1
    )
    for call in (client.flush, client.finish, client.close):
        with pytest.raises(Fenced):
            call()

    assert len(network.posts) == 1
