"""What a sealed stream answers a writer, against the real controller."""

import logging

import pytest

from noted_time import InvalidNote
from noted_time.client import Backoff
from tests.support.served import Served
from writer_client import WriterClient

SOON = Backoff(first_s=0.01, cap_s=0.05)


def test_a_writer_learns_that_its_stream_is_sealed(
    served: Served, stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A flush raises it, and the log has it; what was durable before stays so."""
    caplog.set_level(logging.WARNING)
    with WriterClient(served.url, stream, "UA", backoff=SOON) as client:
        client.note_time(5, {0: 10})
        client.flush()
        served.call("POST", f"/{stream}/seal")
        client.note_time(6, {0: 11})
        with pytest.raises(InvalidNote, match="takes no more notes") as caught:
            client.flush()

    known = served.writers(stream)["UA"]
    assert (caught.value.status, known["state"], known["position"]) == (
        "sealed",
        "finished",
        {"0": 10},
    )
    assert "the stream is sealed and takes no more notes" in caplog.text


def test_the_only_writer_of_a_stream_may_seal_it(served: Served, stream: str) -> None:
    """Also repeated after a lost answer; the changes name the operator and the reason."""
    with WriterClient(served.url, stream, "UA") as client:
        client.note_time(5, {0: 10})
        client.finish()
        sealed = [client.seal(), client.seal()]

    last = served.call("GET", f"/{stream}/changes")["changes"][0]
    assert sealed == [True, True]
    assert (last["action"], last["comment"]) == ("sealed", "UA, its only writer, has finished")


def test_a_writer_among_others_does_not_seal_their_stream(served: Served, stream: str) -> None:
    """Not even if they are done, or never came."""
    served.create(stream, expected_writers=["DL"])
    with WriterClient(served.url, stream, "UA") as client:
        client.note_time(5, {0: 10})
        client.finish()
        sealed = client.seal()

    assert (sealed, served.call("GET", f"/{stream}")["seal"]) == (False, None)
