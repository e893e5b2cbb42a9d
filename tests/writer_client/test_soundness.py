"""Writers, a failing network, a real controller and a reader together: no row is lost to time."""

import random
import threading
from pathlib import Path

from noted_time import Mark
from noted_time.client import Backoff
from reader_client import ReaderClient
from tests.support.faults import Fault, Faults
from tests.support.served import Served
from tests.support.waiting import PATIENCE_S
from tests.writer_client.appending import rows
from writer_client import Pace, SegmentLogWriter, WriterClient

SOON = Backoff(first_s=0.001, cap_s=0.01)
END = 250
SEGMENTS = (0, 1)
FAULTS: tuple[Fault, ...] = ("no connection", "no answer", "nonsense")


class DisorderlyWriter(threading.Thread):
    """Writes rows out of order over a failing network, and notes what it can vouch for."""

    def __init__(self, root: Path, url: str, stream: str, seed: int) -> None:
        super().__init__()
        self._chance = random.Random(seed)
        network = Faults(*(self._chance.choice(FAULTS) for _ in range(12)))
        self.client = WriterClient(
            url, stream, f"w{seed}", pace=Pace(backoff=SOON), transport=network
        )
        self._log = SegmentLogWriter(
            root, "flights", segments=SEGMENTS, client=self.client, event_time="time"
        )
        self.client.join()
        self.client.flush(60)

    def run(self) -> None:
        """Write all rounds; what is written is never below what was noted."""
        for noted in range(0, END, 10):
            rows = [{"time": noted + self._chance.randrange(60)} for _ in range(3)]
            self._log.append(rows, segment=self._chance.choice(SEGMENTS))
            self._log.note_time(noted + 10)


def followed(root: Path, served: Served, stream: str) -> list[Mark]:
    """Let three writers write at once; return the marks that a reader followed."""
    writers = [DisorderlyWriter(root, served.url, stream, seed) for seed in range(3)]
    with ReaderClient(served.url, stream) as reader:
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
            writer.client.finish(timeout=PATIENCE_S)
            writer.client.close()
        reader.wait_for(END, timeout=PATIENCE_S)
        return list(reader.marks())


def test_no_row_below_a_lower_lies_above_its_cut(
    tmp_path: Path, served: Served, stream: str
) -> None:
    """No mark promises a row that is still to be read, and no row it covers exceeds its upper."""
    marks = followed(tmp_path, served, stream)
    written = [
        (segment, offset, row["time"])
        for segment in SEGMENTS
        for offset, row in enumerate(rows(tmp_path, segment))
    ]

    cuts = [(mark.lower, mark.upper, mark.cut.offsets) for mark in marks]
    late = [
        (lower, segment, offset)
        for lower, _, cut in cuts
        for segment, offset, time in written
        if time < lower and offset >= cut.get(segment, 0)
    ]
    highest = max(time for segment, offset, time in written if offset < cuts[-1][2][segment])
    assert (len(written), late, highest <= cuts[-1][1]) == (3 * 3 * END // 10, [], True)
