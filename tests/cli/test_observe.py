"""`noted-time observe`, against a real controller."""

import pytest

from tests.cli.conftest import Commands
from tools.trials.ports import free_port
from tools.trials.served import Served


@pytest.mark.usefixtures("impatient")
def test_unreachable_broker_is_reported_first(served: Served) -> None:
    """Problems of the stream come after it."""
    stream = served.new()
    address = f"127.0.0.1:{free_port()}"
    result = Commands(served.url)("observe", "kafka", "ingestion", address, stream, "--for", "0s")
    lines = result.err.splitlines()

    assert (result.status, address in lines[0], "unknown_domain" in lines[1]) == (1, True, True)
