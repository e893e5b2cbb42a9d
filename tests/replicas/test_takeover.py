"""What becomes of streams when replicas come, stop, die, sleep, or lose their way."""

from pathlib import Path

import pytest

from tests.replicas.served import buckets, lowers, make, note, shared, status, stream_of
from tests.support.calls import HTTP
from tests.support.postgres import PASSWORD
from tests.support.processes import ServeProcess
from tests.support.waiting import PATIENCE_S, wait_until
from writer_client import WriterClient

pytestmark = pytest.mark.acceptance


def taken(replica: ServeProcess, name: str, noted: int) -> None:
    """Note until it is accepted: if a busy machine delays the takeover, 503 is answered."""
    wait_until(lambda: note(replica, name, noted) == 200)


def test_notes_for_a_replica_that_was_killed_wait_and_are_taken(
    a: ServeProcess, b: ServeProcess, name: str
) -> None:
    """The survivor holds the request until the stream is its own, and answers 200."""
    a.kill()
    taken(b, name, 9)
    wait_until(lambda: buckets(b)["this"] == 64)

    found = PASSWORD in a.text() + b.text()
    assert (lowers(b, name), status(b, "/readyz"), found) == ([(1, 5), (2, 9)], 200, False)


def test_a_client_continues_with_the_remaining_replica(
    a: ServeProcess, b: ServeProcess, name: str
) -> None:
    """With both URLs a writer loses nothing that it noted before, during and after a takeover."""
    with WriterClient(f"{a.url},{b.url}", name, "other") as client:
        client.note_time(6, {0: 60})
        client.flush()
        a.process.kill()
        client.note_time(7, {0: 70})
        client.flush(timeout=PATIENCE_S)

        rows = HTTP.get(f"{b.url}/v1/streams/{name}/writers").json()["writers"]
        heard = {row["writer"]: (row["times"], row["position"]) for row in rows}
        assert heard["other"] == ({"default": 7}, {"0": 70})


def test_requests_for_an_unreachable_replica_are_refused_in_the_end(
    tmp_path: Path, url: str
) -> None:
    """503 with `Retry-After`, once they were held for long enough; the log says why, once."""
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

    found = [
        (each.status_code, each.json()["code"], each.headers["retry-after"]) for each in answers
    ]
    assert (found, warned) == ([(503, "no_owner", "1")] * 3, ["http://127.0.0.1:1"])
