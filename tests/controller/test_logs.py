"""A stream takes positions of the first log that a note names."""

from noted_time.values import Accepted, Note, OtherLog, Refused
from tests.support.controllers import Watched, deliver, run_controller, serve_stream

BERLIN, LIMA = "l-Nn1Hl_QmqdyIVaRTaVpA", "AvWge3ZRTjyVqTlEMLwNvQ"


async def test_log_is_kept_over_restart(store: Watched) -> None:
    async with serve_stream(store) as controller:
        await deliver(controller, Note("a", -(2**63) + 1, {0: 2**62 + 1}, log=LIMA))
        await deliver(controller, Note("a", 5, {0: 5}, log=BERLIN))
    async with run_controller(store.reopen()) as controller:
        results = await controller.note("s", [Note("a", 7, log=LIMA), Note("a", 8, log=BERLIN)])

    assert results == [Refused("another_log", OtherLog(BERLIN, LIMA)), Accepted(8)]
