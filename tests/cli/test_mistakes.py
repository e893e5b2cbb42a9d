"""Errors of the command line explain the mistake and the remedy."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from noted_time.client.protocol import AddressedQuestion, Question, build_unreachable
from tests.cli.conftest import Commands


@pytest.mark.parametrize(
    "words", ["", "stream", "stream delete", "serve", "observe kafka ingestion"]
)
def test_help_shows_flags_without_a_value(run: Commands, words: str) -> None:
    output = run(*words.split(), "--help").out

    assert ("--help" in output, "bool" in output) == (True, False)


@pytest.fixture(params=[b"", b"\x00\x00\x00\x10no such request\r\n\r\n"])
def other_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """Serve another protocol than HTTP: hang up, or answer something else."""

    def answer() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(10_000)
                    connection.sendall(request.param)

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        threading.Thread(target=answer, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)  # ends the thread


def test_a_port_of_another_server_is_explained(run: Commands, other_server: str) -> None:
    """A Kafka broker hangs up on HTTP, and has no TLS."""
    plain_result = run("stream", "list", "--url", f"http://{other_server}")
    encrypted_result = run("stream", "list", "--url", f"https://{other_server}")

    assert plain_result.err.endswith("or needs https://\n")
    remedy = "does not use TLS; use http://, or correct the port in the URL\n"
    assert encrypted_result.err.endswith(remedy)
    assert (plain_result.status, encrypted_result.status) == (69, 69)


def test_connection_closed_before_tls_begins_is_explained() -> None:
    question = AddressedQuestion("https://127.0.0.1:9092", Question("GET", "/v1/streams"), "")

    error = build_unreachable(question, OSError("TLS/SSL connection has been closed (EOF)"))

    assert str(error).endswith("does not use TLS; use http://, or correct the port in the URL")
