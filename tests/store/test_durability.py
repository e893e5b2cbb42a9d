"""What a commit promised is there after the process was killed."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

from controller.store.sqlite import SqliteStore
from tests.support.stored import seqs

WRITERS = 50

# Commits batch n = 1, 2, … for ever, each a mark and a note of every writer, and prints n after it.
ENDLESS = f"""
import sys
from itertools import count
from controller.store.port import Transaction
from controller.store.sqlite import SqliteStore
from tests.support.stored import mark, member, of_one_stream, records

store = SqliteStore(sys.argv[1])
store.commit(of_one_stream())
for n in count(1):
    members = records(*(member(f"writer-{{i:02}}", time=n) for i in range({WRITERS})))
    store.commit(Transaction({{0: n}}, members=members, marks=[mark(n)]))
    print(n, flush=True)
"""


def last_printed_before_the_kill(database: Path, batches: int) -> int:
    """Let a process commit about as many batches, kill it, and return the last it reported."""
    command = [sys.executable, "-c", ENDLESS, str(database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            if int(line) >= batches:
                process.kill()
                break
        rest = process.stdout.read().split("\n")[:-1]  # a line that has no end was cut off
    return int(rest[-1]) if rest else batches


def test_what_was_committed_outlives_a_kill(database: Path) -> None:
    """Everything reported is there, whole, and at most the batch in flight besides."""
    reported = last_printed_before_the_kill(database, batches=200)

    with closing(SqliteStore(database)) as store:
        last = seqs(store)[-1]
        times = [member.times["default"] for member in store.members("id-1")]
        assert (last in {reported, reported + 1}, store.clocks()[0], seqs(store), times) == (
            True,
            last,
            list(range(1, last + 1)),
            [last] * WRITERS,
        )
