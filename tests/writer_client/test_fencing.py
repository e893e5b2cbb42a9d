"""Two processes under one writer name: the younger takes over, the older stops with an error."""

import json

import httpx
import pytest

from noted_time import Fenced
from tests.writer_client.scripted import URL, Scripted, results
from writer_client import WriterClient

HELD = {"session": "c07d", "label": "host-b:1017", "began_at": 1_795_169_136_901}
FENCED = {"status": "fenced", "last": HELD}


def test_a_fenced_client_neither_notes_its_clock_nor_goes_idle() -> None:
    class AllFenced(Scripted):
        """Another process has the name from the first."""

        def _answer(self, request: httpx.Request) -> httpx.Response:
            self.planned = [results(*[FENCED] * len(json.loads(request.content)["notes"]))]
            return super()._answer(request)

    network = AllFenced()
    client = WriterClient(
        "s", "UA", controller=URL, transport=network, automatically_note_time=True, idle_after_ms=1
    )
    for call in (client.flush, client.finish, client.close):
        with pytest.raises(Fenced):
            call()

    assert len(network.posts) == 1
