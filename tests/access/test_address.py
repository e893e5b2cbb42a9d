"""On which addresses a controller may be served, and with which warning."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from controller.api.access import Gate
from controller.api.server import Place
from controller.cli.serving import _check_address
from noted_time import Rejected
from tests.support.gates import Guarded

ANYWHERE = "0.0.0.0"  # noqa: S104 - nothing is bound here


def warned(gate: Gate, place: Place, *, insecure: bool = False) -> list[str]:
    """Return the events of the warnings that the address gives rise to."""
    with capture_logs() as logs:
        _check_address(gate, place, "sqlite:///a.db", insecure=insecure)
    return [line["event"] for line in logs]


def with_a_token() -> Gate:
    """Return a gate that asks for tokens."""
    guarded = Guarded()
    guarded.token("admin")
    return guarded.gate


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_the_loopback_is_served_without_tokens(host: str) -> None:
    """Only this machine can call it."""
    assert warned(Gate(), Place(host, 0)) == []


@pytest.mark.parametrize("host", [ANYWHERE, "::", "10.0.0.1", "controller.example", ""])
def test_no_other_address_is_served_without_tokens(host: str) -> None:
    """Strangers could move the time of every stream."""
    with pytest.raises(Rejected, match="there is no token"):
        warned(Gate(), Place(host, 0))


def test_the_operator_may_let_everybody_in() -> None:
    """The log has it."""
    assert warned(Gate(), Place(ANYWHERE, 0), insecure=True) == ["open_to_everybody"]


def test_a_closed_door_may_stand_anywhere() -> None:
    """Tokens can be made while it serves; in clear they are warned of."""
    gates = [Gate(require=True), with_a_token()]

    assert [warned(gate, Place(ANYWHERE, 0)) for gate in gates] == [["tokens_in_clear"]] * 2


def test_tokens_over_tls_are_warned_of_no_more() -> None:
    """They cannot be read on the way."""
    place = Place(ANYWHERE, 0, Path("certificate.pem"), Path("key.pem"))

    assert warned(with_a_token(), place) == []
