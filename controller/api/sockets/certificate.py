"""Loads changed TLS files, and reads when a certificate expires."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import structlog
from prometheus_client import Gauge

log = structlog.get_logger()

LOOK_EVERY_S = 1.0
EXPIRED_AT = 1.0  # 0 without a certificate


async def watch_certificate(context: ssl.SSLContext, cert: Path, key: Path, expiry: Gauge) -> None:
    """Load both files for new connections whenever one has changed, and set the `expiry`."""
    known_times: list[int] = []
    while True:
        modified_times = [path.stat().st_mtime_ns for path in (cert, key) if path.exists()]
        if modified_times != known_times:
            try:
                _load(context, cert, key, expiry)
            except OSError as error:  # such as a certificate whose key follows
                log.warning("certificate_not_loaded", error=str(error))
        known_times = modified_times
        await asyncio.sleep(LOOK_EVERY_S)


def _load(context: ssl.SSLContext, cert: Path, key: Path, expiry: Gauge) -> None:
    """Have `context` use a new one, in which no former certificate has another kind of key."""
    new_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    new_context.load_cert_chain(cert, key, password=lambda: "")
    context.sni_callback = lambda connection, *_: setattr(connection, "context", new_context)
    expiry.set(read_expiry(new_context, cert))
    log.info("certificate_loaded")


def read_expiry(context: ssl.SSLContext, cert: Path) -> float:
    """Return the Unix time when the certificate of `context` expires.

    Only a client that trusts a certificate can read it, so this shakes hands in memory.
    """
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client_context.load_verify_locations(cert)
    to_server = ssl.MemoryBIO()
    to_client = ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError:
            return EXPIRED_AT
    certificate = client.getpeercert() or {}
    return float(ssl.cert_time_to_seconds(str(certificate["notAfter"])))
