"""A proxy in front of a controller that answers with the answers of other requests."""

import re
from collections import Counter
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

import httpx

from noted_time.client import REQUEST_HEADER
from tests.support.loopback import Loopback, give
from tools.trials.calls import HTTP

SENT_HEADERS = ("content-type", "authorization", REQUEST_HEADER)
RETURNED_HEADERS = ("content-type", "retry-after", REQUEST_HEADER)


class CachingProxy(Loopback):
    """Answers a method and path as it did before, whatever the bodies and queries are.

    The `faults` are words: the methods whose answers it mixes up, and

    - `caches`: it repeats the first answer, and the controller gets no more such request;
    - `delays`: the controller gets each request, and the caller the answer to the one before;
    - `once`: it does so once;
    - `strips`: no answer has the id of a request.
    """

    def __init__(self, controller: str, faults: str) -> None:
        super().__init__(self._respond)
        self._controller = controller
        self._faults = frozenset(re.findall(r"\w+", faults))
        self._known: dict[tuple[str, str], httpx.Response] = {}
        self.mixed_up = Counter[str]()
        """The number of wrong answers, by method and path."""

    def _respond(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        key = (request.command, urlsplit(request.path).path)
        cached_answer = self._known.get(key) if self._may_mix_up(request.command) else None
        answer = cached_answer
        if cached_answer is None or "delays" in self._faults:
            self._known[key] = self._forward(request, body)
            answer = cached_answer or self._known[key]
        if cached_answer is not None:
            self.mixed_up[" ".join(key)] += 1
        assert answer is not None
        self._give(request, answer)

    def _may_mix_up(self, method: str) -> bool:
        is_over = "once" in self._faults and self.mixed_up.total() > 0
        return method in self._faults and not is_over

    def _forward(self, request: BaseHTTPRequestHandler, body: bytes) -> httpx.Response:
        headers = {name: request.headers[name] for name in SENT_HEADERS if name in request.headers}
        url = self._controller + request.path
        return HTTP.request(request.command, url, headers=headers, content=body)

    def _give(self, request: BaseHTTPRequestHandler, answer: httpx.Response) -> None:
        names = [name for name in RETURNED_HEADERS if name in answer.headers]
        headers = {name: answer.headers[name] for name in names}
        if "strips" in self._faults:
            headers.pop(REQUEST_HEADER, None)
        give(request, answer.status_code, answer.content, headers)
