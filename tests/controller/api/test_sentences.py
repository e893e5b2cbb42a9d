"""The sentences of `explain`: holders of the watermark, other writers, and timeouts.

A paragraph of `sentences.txt` has the form of `test_calls.py`, and three more acts:

    notes lima 9h25 0:5; osaka 10h30    notes as in tests/core/test_scenarios.py, with times such as
                                        9h25; each declares its time as the largest of its events
    play 60 540                         for 540 s, berlin and osaka note the wall clock every 60 s
    explain exclude=lima                the sentences follow after a stroke each, and `...` stands
                                        for any text
"""

import re
from pathlib import Path

import pytest
from msgspec.structs import asdict

from tests.controller.api.test_calls import Calls
from tests.core.test_scenarios import parse_note
from tests.support.controllers import GivenTime, WatchedMemory
from tests.support.paragraphs import read_paragraphs

DAY = 1_356_998_400_000
CLOCK_TIME = re.compile(r"\b(\d+)h(\d+)\b")


class Explained(Calls):
    """Acts on a stream whose explanation is compared with sentences."""

    async def perform(self, line: str) -> None:
        """Perform one act."""
        act, *expected = line.split("\n    | ")
        verb, _, rest = act.partition(" ")
        if verb == "notes":
            await self.note(rest)
        elif verb == "play":
            every_ms, ms = (1000 * int(each) for each in rest.split())
            for _ in range(ms // every_ms):
                self.move_clocks("serve", every_ms)
                at = self.time.wall - 1000
                await self.note(f"berlin {at} 0:1; osaka {at} 0:1")
        elif verb == "explain":
            query = "&".join(rest.split())
            answer = await self.call.client.get(f"/v1/streams/s/explain?{query}")
            found = "\n".join(answer.json()["sentences"])
            assert build_pattern(expected).fullmatch(found), (expected, found)
        else:
            await super().perform(line)

    async def note(self, notes: str) -> None:
        """Send notes, which declare their time as the largest of their events."""
        in_ms = CLOCK_TIME.sub(lambda at: str(DAY + 60_000 * (60 * int(at[1]) + int(at[2]))), notes)
        bodies = [asdict(parse_note(each)) for each in in_ms.split("; ")]
        declared = [body | {"max_time": body["time"]} for body in bodies]
        await self.call.note(*({k: v for k, v in body.items() if v} for body in declared))


def build_pattern(expected: list[str]) -> re.Pattern[str]:
    """Return a pattern of the expected sentences."""
    return re.compile(re.escape("\n".join(expected)).replace(r"\.\.\.", r"(?s:.*)"))


@pytest.mark.parametrize("acts", read_paragraphs(Path(__file__).with_name("sentences.txt")))
async def test_sentences(memory: WatchedMemory, time: GivenTime, acts: list[str]) -> None:
    await Explained(memory, time).play(acts)
