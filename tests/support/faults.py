"""A network with planned faults between a client and a real controller."""

import json
import threading
from typing import Any, Literal

import httpx

Fault = Literal["no connection", "no answer", "busy", "nonsense", "refused"]


class Faults(httpx.BaseTransport):
    """Fails the next requests as planned, then passes all requests on.

    `no answer` loses the answer, and `busy` is a 503 with `retry_after_s`. `bodies` are the bodies
    of all requests.
    """

    def __init__(self, *faults: Fault, retry_after_s: int = 1) -> None:
        self.planned = list(faults)
        self.bodies: list[Any] = []
        self.gate = threading.Event()
        self.gate.set()
        self._retry_after_s = retry_after_s
        self._network = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Wait while the gate is closed, then pass the request on or fail."""
        content = request.read()
        self.bodies.append(json.loads(content) if content else None)
        assert self.gate.wait(60)
        fault = self.planned.pop(0) if self.planned else None
        if fault == "no connection":
            raise httpx.ConnectError("no connection", request=request)
        if fault == "busy":
            return httpx.Response(503, headers={"Retry-After": str(self._retry_after_s)})
        if fault == "refused":
            return httpx.Response(403, json={"title": "Forbidden", "detail": "no such door"})
        if fault == "nonsense":
            return httpx.Response(200, text="<html>welcome to the hotel</html>")
        answer = self._network.handle_request(request)
        if fault == "no answer":
            answer.read()
            answer.close()
            raise httpx.ReadTimeout("no answer", request=request)
        return answer

    def close(self) -> None:
        self._network.close()
