"""A controller cut down to its marks route, in a thread: what a Spark source follows."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from noted_time import Aggregator, Note, SealRequest, StreamSettings
from noted_time.client import mark_to_wire, position_from_wire, position_to_wire
from noted_time.client.problems import PREFIX

if TYPE_CHECKING:
    from noted_time import ScaleEvent, State


class MarksServer:
    """Streams with their aggregators, served over HTTP on a port of its own choice.

    `stop` and `start` take it away and bring it back on the same port; what it knows stays.
    """

    def __init__(self) -> None:
        self.streams: dict[str, StreamOfMarks] = {}
        self.changed = threading.Condition()
        self.reports: list[tuple[str, str, dict[str, Any]]] = []
        self.shown: set[str | None] = set()
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen."""
        handler = type("Handler", (_Handler,), {"served": self})
        self._server = _Server(("127.0.0.1", self._port), handler)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Refuse connections, and answer what waits."""
        self._server.shutdown()
        self._server.server_close()
        self._server.away = True
        with self.changed:
            self.changed.notify_all()
        self._thread.join()

    def stream(self, name: str, *domains: str, stream_id: str | None = None) -> StreamOfMarks:
        """Make a stream, anew where there is one."""
        self.streams[name] = StreamOfMarks(self, stream_id or name, domains or ("default",))
        return self.streams[name]

    def reported(self, stream: str, group: str, reader: str) -> dict[int, int]:
        """Return the position that a reader reported last."""
        path = f"/v1/streams/{stream}/reader-groups/{group}/readers/{reader}"
        bodies = [body for _, where, body in self.reports if where.startswith(path)]
        return position_from_wire(bodies[-1]["position"])

    def answer(self, server: _Server, stream: str, query: dict[str, str]) -> dict[str, Any]:
        """Return the marks after a seq, waiting as long as asked while there is none."""
        after, limit = int(query.get("after", 0)), int(query.get("limit", 1000))
        with self.changed:
            self.changed.wait_for(
                lambda: server.away or self.streams[stream].has_more(after, query.get("domain")),
                timeout=int(query.get("wait_ms", 0)) / 1000,
            )
            served = self.streams[stream]
            marks = served.after(after, query.get("domain"))[:limit]
            events = len(served.scale_events)
            sealed, final_cut = served.final_cut is not None, served.final_cut
        about = {"stream_id": served.stream_id, "scale_events": events}
        return {**about, "marks": marks, "sealed": sealed, "final_cut": final_cut}


class StreamOfMarks:
    """One stream: notes go in, marks are served."""

    def __init__(self, server: MarksServer, stream_id: str, domains: tuple[str, ...]) -> None:
        self.stream_id = stream_id
        self.domains = domains
        self.scale_events: list[dict[str, Any]] = []
        self.final_cut: dict[str, int] | None = None
        self._server = server
        self._aggregator = Aggregator(StreamSettings(domains=domains))
        self._marks: dict[str, list[dict[str, Any]]] = {domain: [] for domain in domains}

    def note(
        self,
        writer: str,
        time: int | None,
        position: dict[int, int],
        domain: str | None = None,
        state: State = "live",
    ) -> None:
        """Take a note and let time go on; an unnamed domain is the only one, or `default`."""
        with self._server.changed:
            note = Note(writer, time, position, domain, state=state)
            self._aggregator.note(note, now=0)
            for each, marks in self._marks.items():
                mark = self._aggregator.advance(each, now=0, written_at=0)
                if mark is not None:
                    marks.append(mark_to_wire(mark))
            self._server.changed.notify_all()

    def seal(self, **asked: Any) -> None:  # noqa: ANN401 - any of a request
        """End the stream; `asked` are the fields of a `SealRequest`."""
        with self._server.changed:
            before = {each: self._aggregator.domains[each].last for each in self._marks}
            sealed = self._aggregator.seal(SealRequest(**asked), now=0, written_at=0)
            for each, marks in self._marks.items():
                mark = self._aggregator.domains[each].last
                if mark is not None and mark != before[each]:
                    marks.append(mark_to_wire(mark))
            self.final_cut = position_to_wire(sealed.final_cut)
            self._server.changed.notify_all()

    def has_more(self, seq: int, domain: str | None) -> bool:
        """Whether a poll after a seq is answered at once."""
        return bool(self.after(seq, domain)) or self.final_cut is not None

    def described(self) -> dict[str, Any]:
        """Return settings, id and last marks, as far as readers look."""
        last = {domain: marks[-1] if marks else None for domain, marks in self._marks.items()}
        about = {"id": self.stream_id, "domains": list(self.domains)}
        return {**about, "scale_events": list(self.scale_events), "marks": last}

    def scale(self, event: ScaleEvent) -> None:
        """Seal segments and create their successors."""
        with self._server.changed:
            self._aggregator.scale(event)
            created = {str(segment): list(before) for segment, before in event.created.items()}
            sealed = position_to_wire(event.sealed)
            self.scale_events.append({"sealed": sealed, "created": created})

    def after(self, seq: int, domain: str | None) -> list[dict[str, Any]]:
        """Return the marks after a seq; raises `KeyError` for a domain that is not declared."""
        chosen = domain or next(iter(self._marks))
        return [mark for mark in self._marks[chosen] if mark["seq"] > seq]


class _Server(ThreadingHTTPServer):
    away = False
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of those who hang up, as a query does when it is stopped."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    served: MarksServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Serve `/v1/streams/{stream}` and its `/marks`."""
        parts = urlsplit(self.path)
        stream = parts.path.split("/")[3]
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        server = self.server
        assert isinstance(server, _Server)
        if server.away:
            self.close_connection = True
            return
        if stream not in self.served.streams:
            self._reply(404, {"type": f"{PREFIX}unknown_stream", "detail": stream})
            return
        if "/reader-groups/" in parts.path:
            self._reply_group(parts.path)
            return
        if not parts.path.endswith("/marks"):
            self._reply(200, self.served.streams[stream].described())
            return
        try:
            body = self.served.answer(server, stream, query)
        except KeyError:
            declared = list(self.served.streams[stream].domains)
            facts = {"domain": query["domain"], "domains": declared}
            self._reply(404, {"type": f"{PREFIX}unknown_domain", **facts})
            return
        if server.away:
            self.close_connection = True
            return
        self._reply(200, body)

    def do_PUT(self) -> None:
        """Take down what a reader reports."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.served.reports.append((self.command, self.path, body))
        self._reply_group(self.path)

    def do_POST(self) -> None:
        """Take down that a reader goes offline."""
        self.do_PUT()

    def _reply_group(self, path: str) -> None:
        """Say where a group of one reader stands, as it said last."""
        group = path.partition("/readers/")[0]
        said = [each for each in self.served.reports if each[1].startswith(f"{group}/readers/")]
        if not said:
            self._reply(404, {"type": f"{PREFIX}unknown_reader", "group": group.split("/")[-1]})
            return
        method, where, body = said[-1]
        position = body["position"]
        online = {where.split("/")[-1]: position} if method == "PUT" else {}
        self._reply(200, {"position": position, "readers": online})

    def _reply(self, status: int, body: dict[str, Any]) -> None:
        self.served.shown.add(self.headers.get("Authorization"))
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: object) -> None:
        """Stay quiet."""
