"""A network between a controller and its database that can be cut."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self


class Cuttable:
    """Passes what comes to `port` on to `target`, both on loopback, until it is cut."""

    def __init__(self, target: int) -> None:
        """Listen on a port of its own."""
        self._target = target
        self._sockets: list[socket.socket] = []
        self._whole = threading.Event()
        self._whole.set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def cut(self) -> None:
        """End every connection, and each new one at once."""
        self._whole.clear()
        for each in self._sockets:
            _end(each)
        self._sockets.clear()

    def mend(self) -> None:
        """Pass on again what comes from now on."""
        self._whole.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                incoming, _ = self._listening.accept()
                if not self._whole.is_set():
                    _end(incoming)
                    continue
                outgoing = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [incoming, outgoing]
                for ends in ((incoming, outgoing), (outgoing, incoming)):
                    threading.Thread(target=_pass_on, args=ends, daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    _end(source)
    _end(sink)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
