"""What a writer is told by a sealed stream, against the real controller."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from noted_time import InvalidNote
from noted_time.backoff import Backoff
from writer_client import WriterClient

if TYPE_CHECKING:
    from tests.support.served import Served

SOON = Backoff(first_s=0.01, cap_s=0.05)


def test_a_writer_of_a_sealed_stream_is_told_so(
    served: Served, stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A flush raises it, and the log says it; what was durable before stays so."""
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
    assert "the stream is sealed, and takes no more notes" in caplog.text
