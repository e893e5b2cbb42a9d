"""What becomes of streams when replicas come, stop, die, sleep, or lose their way."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from controller.store.leases import LEASE_MS
from tests.replicas.served import (
    HTTP,
    buckets,
    lowers,
    make,
    note,
    seconds_until,
    shared,
    status,
    stream_of,
)
from tests.support.cuttable import Cuttable
from tests.support.postgres import PASSWORD
from tests.support.processes import ServeProcess
from writer_client import WriterClient

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres import Server

pytestmark = pytest.mark.acceptance

TAKEOVER_S = 2 * LEASE_MS / 1000


def test_notes_for_a_replica_that_was_killed_wait_and_are_taken(
    a: ServeProcess, b: ServeProcess, name: str
) -> None:
    """One request to the survivor is enough: it is answered within two leases, with 200."""
    a.kill()
    begun = time.monotonic()
    answered = note(b, name, 9)
    took_s = time.monotonic() - begun
    seconds_until(lambda: buckets(b)["this"] == 64)

    told = PASSWORD in a.text() + b.text()
    assert (answered, took_s < TAKEOVER_S, lowers(b, name), status(b, "/readyz"), told) == (
        200,
        True,
        [(1, 5), (2, 9)],
        200,
        False,
    )


def test_a_replica_that_was_paused_contradicts_nobody_when_it_wakes_up(
    a: ServeProcess, b: ServeProcess, name: str
) -> None:
    """Notes went to the next owner within two leases, and whatever it says is in the one chain."""
    a.process.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    answered = note(b, name, 9)
    took_s = time.monotonic() - begun
    a.process.send_signal(signal.SIGCONT)
    statuses = [note(a, name, noted) for noted in (7, 11)]
    seconds_until(lambda: status(a, f"/v1/streams/{name}/marks") == 200)
    first = lowers(a, name)
    seconds_until(lambda: status(a, "/readyz") == 200)
    shared(a, b)
    statuses += [note(a, name, 13), note(b, name, 15)]
    seconds_until(lambda: lowers(a, name) == lowers(b, name))

    chain = lowers(b, name)
    assert (answered, took_s < TAKEOVER_S + 2, statuses[-2:], chain[:2]) == (
        200,
        True,
        [200, 200],
        [(1, 5), (2, 9)],
    )
    assert {*statuses[:2]} <= {200, 503}
    assert chain[: len(first)] == first
    assert [lower for _, lower in chain] == sorted({5, 9, 13, 15} | {lower for _, lower in chain})


def test_a_replica_recovers_from_a_connection_that_was_cut(
    tmp_path: Path, server: Server, url: str
) -> None:
    """Meanwhile it is not ready and acknowledges nothing; afterwards it goes on by itself."""
    with Cuttable(server.port) as network:
        through = server.url(url.rpartition("/")[2], port=network.port)
        with ServeProcess(tmp_path, "--database", through).ready() as replica:
            make(replica, "s")
            note(replica, "s", 5)
            network.cut()
            refused = note(replica, "s", 7), status(replica, "/readyz"), status(replica, "/healthz")
            network.mend()
            seconds_until(lambda: note(replica, "s", 9) == 200)

            assert (refused, lowers(replica, "s")) == ((503, 503, 200), [(1, 5), (2, 9)])


def test_replicas_recover_when_their_server_comes_back(
    a: ServeProcess, b: ServeProcess, name: str, server: Server
) -> None:
    """A crash of the database loses nothing that was acknowledged, and both share again."""
    server.stop(signal.SIGQUIT)
    try:
        refused = [note(each, name, 7) for each in (a, b)]
    finally:
        server.start()
    seconds_until(lambda: note(b, name, 9) == 200)
    shared(a, b)

    assert (refused, lowers(b, name)) == ([503, 503], [(1, 5), (2, 9)])


def test_a_client_goes_on_with_the_replica_that_is_left(
    a: ServeProcess, b: ServeProcess, name: str
) -> None:
    """With both URLs a writer loses nothing that it noted before, during and after a takeover."""
    with WriterClient(f"{a.url},{b.url}", name, "other") as client:
        client.note_time(6, {0: 60})
        client.flush()
        a.process.kill()
        client.note_time(7, {0: 70})
        client.flush(timeout=60)

        rows = HTTP.get(f"{b.url}/v1/streams/{name}/writers").json()["writers"]
        heard = {row["writer"]: (row["times"], row["position"]) for row in rows}
        assert heard["other"] == ({"default": 7}, {"0": 70})


def test_requests_for_a_replica_that_nobody_reaches_are_refused_in_the_end(
    tmp_path: Path, url: str
) -> None:
    """503 with `Retry-After`, as soon as they were held for long enough; the log says why, once."""
    options, wrong = ("--database", url), ("--advertise", "http://127.0.0.1:1")
    with (
        ServeProcess(tmp_path, *options, *wrong) as lost,
        ServeProcess(tmp_path, *options, module="tests.replicas.impatient") as other,
    ):
        shared(lost.ready(), other.ready())
        name = stream_of(lost)
        make(lost, name)
        path = f"{other.url}/v1/streams/{name}"
        answers = [
            HTTP.post(f"{path}/notes", json={"notes": [{"writer": "w"}]}),
            HTTP.get(f"{path}/explain"),
            HTTP.get(f"{path}/marks"),
        ]
        warned = [line["url"] for line in other.log() if line["event"] == "forwarding_failed"]

    told = [
        (each.status_code, each.json()["code"], each.headers["retry-after"]) for each in answers
    ]
    assert (told, warned) == ([(503, "no_owner", "1")] * 3, ["http://127.0.0.1:1"])
