"""Real clients in a process of their own: `python load.py URLS STREAM…`.

For each stream a writer notes time after time, each made durable before the next, and a reader
follows the marks. What was acknowledged and what was read is printed line by line, as JSON, with
the moment at which it was. The writers finish once the standard input ends.
"""

import json
import sys
import threading
import time

from noted_time import NotedTimeError
from reader_client import ReaderClient
from writer_client import WriterClient

PAUSE_S = 0.1
PATIENCE_S = 300.0

ending = threading.Event()
printing = threading.Lock()


def tell(**line: object) -> None:
    """Print what happened, and when."""
    with printing:
        sys.stdout.write(json.dumps({**line, "at": time.monotonic()}) + "\n")
        sys.stdout.flush()


def write(urls: str, stream: str) -> None:
    """Note 1, 2, 3 … until the end."""
    with WriterClient(urls, stream, "w", timeout_ms=600_000) as client:
        noted = 0
        while not ending.is_set():
            noted += 1
            client.note_time(noted, {0: 10 * noted})
            flush(client)
            tell(did="noted", stream=stream, time=noted)
            time.sleep(PAUSE_S)
        client.finish(timeout=PATIENCE_S)


def flush(client: WriterClient) -> None:
    """Wait until it is durable, through pauses of any length."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            client.flush(timeout=10)
        except NotedTimeError as error:
            tell(did="waited", why=repr(error))
            if time.monotonic() > until:
                raise
        else:
            return


def read(urls: str, stream: str) -> None:
    """Follow the marks, as far as there are any."""
    with ReaderClient(urls, stream) as client:
        last = 0
        while not ending.is_set():
            for mark in client.marks(last):
                tell(did="read", stream=stream, seq=mark.seq, lower=mark.lower)
                last = mark.seq
            time.sleep(PAUSE_S)


def main(urls: str, *streams: str) -> None:
    """Run the clients until the standard input ends."""
    threads = [
        threading.Thread(target=target, args=(urls, each))
        for target in (write, read)
        for each in streams
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ending.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
