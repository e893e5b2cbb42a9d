"""Replicas whose event loop or process stands still."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.service.lease_keeper import LIFE_LASTS_MS, RENEW_EVERY_S
from controller.store.port import LEASE_MS
from tests.replicas.replica_processes import BUCKETS, note_time, read_buckets, read_lowers
from tests.support.processes import ServeProcess
from tests.support.standing import STANDS_S
from tools.trials.calls import HTTP
from tools.trials.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance

STANDING = "tests.support.standing"
LIFE_S = LIFE_LASTS_MS / 1000
LEASE_S = LEASE_MS / 1000


@pytest.fixture
def a(tmp_path: Path, url: str) -> Iterator[ServeProcess]:
    """A replica whose loop stands still at a signal."""
    with ServeProcess(tmp_path, "--database", url, module=STANDING) as process:
        yield process


def time_takeover(a: ServeProcess, b: ServeProcess, signal_sent: signal.Signals) -> float:
    """Send the signal to `a`, and return how many seconds later `b` owns all buckets."""
    begin_s = time.monotonic()
    a.process.send_signal(signal_sent)
    wait_until(lambda: read_buckets(b)["this"] == BUCKETS)
    return time.monotonic() - begin_s


def test_busy_loop_keeps_its_leases(a: ServeProcess, b: ServeProcess, name: str) -> None:
    """The loop stands longer than a lease lasts, and then answers as if nothing had been."""
    begin_s = time.monotonic()
    a.process.send_signal(signal.SIGUSR1)
    answer = HTTP.get(f"{a.url}/v1/streams/{name}", timeout=PATIENCE_S)
    stood_s = time.monotonic() - begin_s
    status = note_time(a, name, 7)
    buckets = (read_buckets(a)["this"], read_buckets(b)["this"])

    assert (answer.status_code, status, stood_s >= STANDS_S) == (200, 200, True)
    assert (buckets, read_lowers(b, name)) == ((BUCKETS / 2, BUCKETS / 2), [(1, 5), (2, 7)])
    events = {line["event"] for line in [*a.log(), *b.log()]}
    assert not {"turn_failed", "store_unavailable"} & events


def test_hung_loop_is_replaced_after_its_life_and_lease(
    a: ServeProcess, b: ServeProcess, name: str
) -> None:
    """Its thread still runs, but renews nothing without a sign of life from the loop."""
    took_s = time_takeover(a, b, signal.SIGUSR2)
    status = note_time(b, name, 9)

    assert took_s >= LIFE_S + LEASE_S - 2 * RENEW_EVERY_S
    assert (status, read_lowers(b, name)) == (200, [(1, 5), (2, 9)])


def test_stopped_process_is_replaced_after_its_lease(
    a: ServeProcess, b: ServeProcess, name: str
) -> None:
    """Nothing renews. Once it continues, its first answer is that of the new owner."""
    took_s = time_takeover(a, b, signal.SIGSTOP)
    note_time(b, name, 9)
    a.process.send_signal(signal.SIGCONT)
    wait_until(lambda: a.ask("GET", f"/streams/{name}/marks").is_success)
    first_answer = read_lowers(a, name)

    assert LEASE_S - 2 * RENEW_EVERY_S <= took_s < LIFE_S
    assert first_answer == [(1, 5), (2, 9)]
