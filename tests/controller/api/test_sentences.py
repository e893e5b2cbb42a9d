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
            every_s, seconds = rest.split()
            for _ in range(int(seconds) // int(every_s)):
                self.move_clocks("serve", 1000 * int(every_s))
                time = self.time.wall - 1000
                await self.note(f"berlin {time} 0:1; osaka {time} 0:1")
        elif verb == "explain":
            query = "&".join(rest.split())
            answer = await self.call.client.get(f"/v1/streams/s/explain?{query}")
            sentences = "\n".join(answer.json()["sentences"])
            assert build_pattern(expected).fullmatch(sentences), (expected, sentences)
        else:
            await super().perform(line)

    async def note(self, notes: str) -> None:
        """Send notes, which declare their time as the largest of their events."""
        bodies = []
        for note in CLOCK_TIME.sub(convert_clock_time, notes).split("; "):
            fields = asdict(parse_note(note))
            fields["max_time"] = fields["time"]
            bodies.append({name: value for name, value in fields.items() if value})
        await self.call.note(*bodies)


def convert_clock_time(clock_time: re.Match[str]) -> str:
    minutes = 60 * int(clock_time[1]) + int(clock_time[2])
    return str(DAY + 60_000 * minutes)


def build_pattern(expected: list[str]) -> re.Pattern[str]:
    """Return a pattern of the expected sentences."""
    return re.compile(re.escape("\n".join(expected)).replace(r"\.\.\.", r"(?s:.*)"))


@pytest.mark.parametrize("acts", read_paragraphs(Path(__file__).with_name("sentences.txt")))
async def test_sentences(memory: WatchedMemory, time: GivenTime, acts: list[str]) -> None:
    await Explained(memory, time).play(acts)
