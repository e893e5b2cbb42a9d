"""Threads that decode values of one type for the first time."""

import pytest

from tests.support.processes import run_python

TOGETHER = """
import sys
from threading import Barrier, Thread

from msgspec import defstruct, json

from noted_time.coding import build_decoder, convert_from_json

sys.setswitchinterval(1e-6)  # threads change in the middle of a description
FIELDS = range(6)


def describe(number):
    parts = [
        defstruct(f"Part{number}{part}", [(f"f{each}", int) for each in FIELDS]) for part in FIELDS
    ]
    kind = defstruct(f"Whole{number}", [(f"p{each}", list[parts[each]]) for each in FIELDS])
    return kind, {f"p{each}": [{f"f{field}": field for field in FIELDS}] for each in FIELDS}


def decode(kind, value):
    assert build_decoder(kind).decode(json.encode(value)).p5[0].f5 == 5


def convert(kind, value):
    assert convert_from_json(value, kind).p5[0].f5 == 5


acts = [globals()[name] for name in sys.argv[1].split(",")]
for number in range(int(sys.argv[2])):
    kind, value = describe(number)
    barrier = Barrier(len(acts))
    threads = [
        Thread(target=lambda act=act: (barrier.wait(), act(kind, value))) for act in acts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


FORKED = """
import os
import signal
import time
from threading import Event, Thread

from msgspec import Struct

from noted_time.coding import build_decoder

has_begun = Event()


def describe_slowly():
    has_begun.set()
    time.sleep(0.5)
    return int


class Slow(Struct):
    value: "describe_slowly()"


thread = Thread(target=build_decoder, args=(Slow,))
thread.start()
has_begun.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    assert build_decoder(Slow).decode(b'{"value": 5}').value == 5
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
thread.join()
"""


@pytest.mark.parametrize("acts", ["decode,decode,decode", "decode,convert,convert"])
def test_threads_may_decode_at_once(acts: str) -> None:
    """Without a lock, msgspec 0.22 ends the process with a segmentation fault."""
    process = run_python("-c", TOGETHER, acts, 200)

    assert (process.returncode, process.stderr) == (0, "")


def test_a_fork_waits_for_a_description() -> None:
    """The child would have half of it, and the lock for ever."""
    process = run_python("-c", FORKED)

    assert (process.returncode, process.stderr) == (0, "")
