"""Records what the clients of a version send, and what its controller answers.

`PYTHONPATH=CODE python recording.py URL FILE` writes what `tests/clients` keeps as
`exchanges-0.1.0.json`, with a controller of the same code at the URL. It uses only what the clients
of every version have.
"""

import json
import sys
from pathlib import Path

import httpx

from reader_client import ReaderClient
from writer_client import WriterClient


class Recorder(httpx.BaseTransport):
    """Passes requests on, and keeps them with their answers."""

    def __init__(self) -> None:
        self.exchanges: list[dict[str, object]] = []
        self._network = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Pass a request on."""
        sent = request.read()
        response = self._network.handle_request(request)
        heard = response.read()
        exchange = {
            "method": request.method,
            "path": request.url.raw_path.decode(),
            "body": json.loads(sent) if sent else None,
            "status": response.status_code,
            "answer": json.loads(heard) if heard else None,
        }
        if exchange not in self.exchanges:
            self.exchanges.append(exchange)
        return response


def play(url: str, recorder: Recorder) -> None:
    """Have a writer and a reader do most of what they can."""
    network = httpx.Client(base_url=url, transport=recorder)
    network.put("/v1/streams/s", json={"mark_interval_ms": 0, "domains": ["default", "other"]})
    with WriterClient(url, "s", "UA", timeout_ms=60_000, transport=recorder) as writer:
        writer.join()
        writer.note_time(1000, {0: 10, 1: 4}, max_time=900)
        writer.note_time(2000, {0: 20}, domain="other")
        writer.flush()
        with ReaderClient(url, "s", group="g", reader="r", transport=recorder) as reader:
            reader.catch_up()
            reader.advance({0: 10})
            reader.get_time_window()
            list(reader.windows(500, after=0, wait=0))
            reader.segment_times()
            reader.offline()
        writer.idle()
        writer.flush()
        writer.note_time(3000, {0: 30})
        writer.flush()
        network.post("/v1/streams/s/notes", json={"notes": [{"writer": "UA", "time": 5}]})
        writer.finish()


if __name__ == "__main__":
    made = Recorder()
    play(sys.argv[1], made)
    Path(sys.argv[2]).write_text(json.dumps(made.exchanges, indent=1) + "\n")
