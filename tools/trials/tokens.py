"""A server of tokens (OAuth 2.0, client credentials), and its keys for a broker."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = b"a key for nothing except a test."
ID = "tests"
LASTS_S = 3600


def encode_part(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


KEYS: dict[str, Any] = {"keys": [{"kty": "oct", "kid": ID, "alg": "HS256", "k": encode_part(KEY)}]}
"""The keys that a broker checks tokens with (JWKS)."""


def make_token(user: str, key: bytes = KEY) -> str:
    """Return a signed token (JWT) of a user, valid for an hour."""
    now = int(time.time())
    claims = {"sub": user, "iat": now, "exp": now + LASTS_S}
    parts = ({"alg": "HS256", "kid": ID}, claims)
    signed_part = ".".join(encode_part(json.dumps(part).encode()) for part in parts)
    return f"{signed_part}.{encode_part(hmac.digest(key, signed_part.encode(), 'sha256'))}"


class TokenServer(ThreadingHTTPServer):
    """Gives a token for the password of a user."""

    def __init__(self, port: int, user: str, password: str) -> None:
        """Serve in a thread until `close`."""
        super().__init__(("127.0.0.1", port), _Answer)
        self.user = user
        self.login = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Answer(BaseHTTPRequestHandler):
    server: TokenServer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != self.server.login:
            self.send_error(401)
            return
        token_answer = {"access_token": make_token(self.server.user), "expires_in": LASTS_S}
        body = json.dumps(token_answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
