"""Several controllers on one PostgreSQL database: one serves, the others take its place."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from controller.store.owner import LEASE_MS
from tests.support.cuttable import Cuttable
from tests.support.postgres import PASSWORD
from tests.support.processes import ServeProcess
from writer_client import WriterClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.postgres import Server

pytestmark = pytest.mark.acceptance

TAKEOVER_S = 2 * LEASE_MS / 1000


@pytest.fixture
def url(server: Server) -> str:
    """A database with nothing in it, not even tables."""
    return server.make_database()


@pytest.fixture
def owner(tmp_path: Path, url: str) -> Any:  # noqa: ANN401 - a fixture that yields
    """A controller that serves the database, with a stream `s` in which `a` noted 5."""
    with ServeProcess(tmp_path, "--database", url).ready() as process:
        httpx.put(f"{process.url}/v1/streams/s", json={"mark_interval_ms": 0})
        assert note(process, 5) == 200
        yield process


@pytest.fixture
def standby(tmp_path: Path, url: str, owner: ServeProcess) -> Any:  # noqa: ANN401 - likewise
    """Another controller on the database that `owner` serves."""
    assert owner.process.poll() is None
    with ServeProcess(tmp_path, "--database", url).ready() as process:
        yield process


def note(process: ServeProcess, time_: int) -> int:
    """Note a time of the writer `a`; returns the status of the answer."""
    notes = [{"writer": "a", "time": time_, "position": {"0": time_}}]
    return httpx.post(f"{process.url}/v1/streams/s/notes", json={"notes": notes}).status_code


def lowers(process: ServeProcess) -> list[tuple[int, int]]:
    """Return seq and lower of the marks of `s`."""
    marks = httpx.get(f"{process.url}/v1/streams/s/marks").json()["marks"]
    return [(mark["seq"], mark["lower"]) for mark in marks]


def status(process: ServeProcess, path: str) -> int:
    """Return the status of a GET, 0 where nobody answers."""
    with suppress(httpx.TransportError):
        return httpx.get(f"{process.url}{path}").status_code
    return 0


def seconds_until(holds: Callable[[], bool], patience_s: float = 20.0) -> float:
    """Wait until it holds; returns how long that took."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < patience_s
        time.sleep(0.05)
    return time.monotonic() - begun


def test_who_stands_by_lives_but_is_not_ready(standby: ServeProcess) -> None:
    """Every call of the API is told to come back; no answer comes from an empty memory."""
    refused = [
        httpx.get(f"{standby.url}/readyz"),
        httpx.get(f"{standby.url}/v1/streams"),
        httpx.get(f"{standby.url}/v1/streams/s/marks"),
        httpx.put(f"{standby.url}/v1/streams/t"),
        httpx.post(f"{standby.url}/v1/streams/s/notes", json={"notes": [{"writer": "a"}]}),
    ]
    told = {
        (each.status_code, each.headers["retry-after"], each.json()["code"]) for each in refused
    }

    assert (status(standby, "/healthz"), told) == (200, {(503, "1", "standby")})


def test_two_controllers_start_on_an_empty_database_at_once(tmp_path: Path, url: str) -> None:
    """One makes the tables, one serves, and neither fails."""
    with (
        ServeProcess(tmp_path, "--database", url) as one,
        ServeProcess(tmp_path, "--database", url) as other,
    ):
        found = [status(each.ready(), "/readyz") for each in (one, other)]

    assert sorted(found) == [200, 503]


def test_who_stands_by_takes_over_when_the_owner_is_killed(
    owner: ServeProcess, standby: ServeProcess
) -> None:
    """Marks go on where they stood, within two leases, and no log has told the password."""
    owner.kill()
    took_s = seconds_until(lambda: note(standby, 9) == 200)

    found = lowers(standby), status(standby, "/readyz"), PASSWORD in owner.text() + standby.text()
    assert (took_s < TAKEOVER_S, *found) == (True, [(1, 5), (2, 9)], 200, False)


def test_an_owner_that_stops_hands_over_at_once(owner: ServeProcess, standby: ServeProcess) -> None:
    """Nobody waits for the end of a lease that was given back."""
    owner.stop()
    took_s = seconds_until(lambda: status(standby, "/readyz") == 200)

    assert took_s < LEASE_MS / 1000


def test_an_owner_that_was_paused_stands_by_when_it_wakes_up(
    owner: ServeProcess, standby: ServeProcess
) -> None:
    """It acknowledges nothing any more, and all that the new owner took is there."""
    owner.process.send_signal(signal.SIGSTOP)
    took_s = seconds_until(lambda: note(standby, 9) == 200)
    owner.process.send_signal(signal.SIGCONT)
    refused = note(owner, 7)
    seconds_until(lambda: httpx.get(f"{owner.url}/readyz").json().get("code") == "standby")

    assert (took_s < TAKEOVER_S, refused, note(standby, 11), lowers(standby)) == (
        True,
        503,
        200,
        [(1, 5), (2, 9), (3, 11)],
    )


def test_an_owner_without_notes_stays_the_owner(owner: ServeProcess, standby: ServeProcess) -> None:
    """It renews its lease while nobody writes."""
    time.sleep(1.5 * LEASE_MS / 1000)

    assert [status(each, "/readyz") for each in (owner, standby)] == [200, 503]


def test_the_service_clock_goes_on_where_the_last_owner_left_it(
    owner: ServeProcess, standby: ServeProcess, server: Server, url: str
) -> None:
    """Time in which a controller stood by counts for nobody."""
    time.sleep(1.2)
    owner.kill()
    ((before,),) = server.execute("SELECT service_ms FROM service_clock", url)
    seconds_until(lambda: note(standby, 9) == 200)
    ((after,),) = server.execute("SELECT service_ms FROM service_clock", url)

    assert before > 1000
    assert 0 <= after - before < 1000


def test_a_controller_recovers_from_a_connection_that_was_cut(
    tmp_path: Path, server: Server, url: str
) -> None:
    """Meanwhile it is not ready and acknowledges nothing; afterwards it goes on by itself."""
    with Cuttable(server.port) as network:
        through = server.url(url.rpartition("/")[2], port=network.port)
        with ServeProcess(tmp_path, "--database", through).ready() as process:
            httpx.put(f"{process.url}/v1/streams/s", json={"mark_interval_ms": 0})
            note(process, 5)
            network.cut()
            refused = note(process, 7), status(process, "/readyz"), status(process, "/healthz")
            network.mend()
            seconds_until(lambda: note(process, 9) == 200)

            assert (refused, lowers(process)) == ((503, 503, 200), [(1, 5), (2, 9)])


def test_a_controller_recovers_when_its_server_comes_back(
    owner: ServeProcess, server: Server
) -> None:
    """A crash of the database loses nothing that was acknowledged."""
    server.stop(signal.SIGQUIT)
    try:
        refused = note(owner, 7)
    finally:
        server.start()
    seconds_until(lambda: note(owner, 9) == 200)

    assert (refused, lowers(owner)) == (503, [(1, 5), (2, 9)])


def test_a_client_goes_on_with_the_one_that_takes_over(
    owner: ServeProcess, standby: ServeProcess
) -> None:
    """With both URLs a writer loses nothing that it noted before, during and after a takeover."""
    with WriterClient(f"{owner.url},{standby.url}", "s", "b") as client:
        client.note_time(6, {0: 60})
        client.flush()
        owner.process.kill()
        client.note_time(7, {0: 70})
        client.flush(timeout=60)

        rows = httpx.get(f"{standby.url}/v1/streams/s/writers").json()["writers"]
        heard = {row["writer"]: (row["times"], row["position"]) for row in rows}
        assert heard["b"] == ({"default": 7}, {"0": 70})
