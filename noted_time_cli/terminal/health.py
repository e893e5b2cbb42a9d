"""Serves the health of an observer or relay."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated

import typer

from noted_time.client.polling import PollingLoop
from noted_time.values import Rejected

HealthPort = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        envvar="NOTED_TIME_HEALTH_PORT",
        help="Answer /healthz and /metrics on this port.",
        show_envvar=False,
    ),
]

SILENCE_METRIC = """\
# HELP noted_time_silent_seconds Time since an observer's note was accepted, or a relay polled
# TYPE noted_time_silent_seconds gauge
noted_time_silent_seconds {:.3f}
"""


def serve_health(port: int, rounds: PollingLoop, limit_s: float) -> None:
    """Answer until the process ends; `/healthz` is 503 if nothing has succeeded for `limit_s`."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            silent_s = rounds.silent_s
            is_failed = self.path == "/healthz" and silent_s >= limit_s
            self.send_response(503 if is_failed else 200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(SILENCE_METRIC.format(silent_s).encode())

        def log_message(self, *_: object) -> None: ...

    try:
        server = ThreadingHTTPServer(("", port), Answers)
    except (OSError, OverflowError) as error:
        raise Rejected(f"--health-port {port}: {error}") from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
