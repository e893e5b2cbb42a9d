"""The sentences of `explain`: holders of the watermark, other writers, and timeouts.

A paragraph of `sentences.txt` has a fact, more about it, and acts on a stream `s`: notes as in
tests/core/test_scenarios.py, with times such as 9h25, and the methods of `Acts`. The sentences of
`explain` follow it after a stroke each; `...` stands for any text.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from controller.aggregation.views import silence
from controller.service.maintenance import exclude_silent_writers, forget_departed
from noted_time.rules import decisions
from noted_time.values import format_time
from tests.core.test_scenarios import parse_note
from tests.support.controllers import GivenTime, serve_for
from tests.support.http import Caller
from tests.support.paragraphs import read_paragraphs

S = "/v1/streams/s"
DAY = 1_356_998_400_000
NINE_25 = DAY + 565 * 60_000
HALF_PAST_TEN = DAY + 630 * 60_000
CLOCK_TIME = re.compile(r"\b(\d+)h(\d+)\b")


@dataclass
class Acts:
    """Acts on a stream before it is explained."""

    call: Caller
    time: GivenTime

    async def perform(self, line: str) -> None:
        """Perform one act; compare the answer of `explain` with the expected one."""
        act, *expected = line.split("\n    | ")
        verb, _, rest = act.partition(" ")
        method = getattr(self, verb, None)
        if method is None:
            await self.note(act)
        elif verb == "explain":
            assert build_pattern(expected).fullmatch("\n".join(await method(rest))), expected
        else:
            await method(rest)

    async def note(self, notes: str) -> None:
        """Send notes, which declare their time as the largest of their events."""
        in_ms = CLOCK_TIME.sub(lambda at: str(DAY + 60_000 * (60 * int(at[1]) + int(at[2]))), notes)
        bodies = [asdict(parse_note(each)) for each in in_ms.split("; ")]
        declared = [body | {"max_time": body["time"]} for body in bodies]
        await self.call.note(*({k: v for k, v in body.items() if v} for body in declared))

    async def settings(self, changed: str) -> None:
        """Change settings."""
        await self.call.put(S, json.loads(changed))

    async def serve(self, seconds: str) -> None:
        """Let the controller serve."""
        serve_for(self.call.controller, self.time, 1000 * int(seconds))

    async def remove(self, writers: str) -> None:
        """Remove writers."""
        for writer in writers.split():
            await self.call.client.delete(f"{S}/writers/{writer}")

    async def hold(self, writers: str) -> None:
        """Keep writers from timing out for an hour."""
        for writer in writers.split():
            path = f"{S}/writers/{writer}/hold?comment=redeploy"
            await self.call.post(path, {"for_ms": 3_600_000})

    async def play(self, words: str) -> None:
        """Have two writers note the wall clock at an interval, for some seconds."""
        every, seconds = map(int, words.split())
        await play(self.call, self.time, every_ms=1000 * every, seconds=seconds)

    async def expire(self, _: str) -> None:
        """Exclude writers that are silent for too long."""
        await self.call.controller._committer.submit(exclude_silent_writers)

    async def forget(self, _: str) -> None:
        """Forget departed writers."""
        await self.call.controller._committer.submit(forget_departed)

    async def explain(self, query: str) -> list[str]:
        """Return the sentences."""
        path = f"{S}/explain?{'&'.join(query.split())}"
        found: list[str] = (await self.call.client.get(path)).json()["sentences"]
        return found


def build_pattern(expected: list[str]) -> re.Pattern[str]:
    """Return a pattern of the expected sentences."""
    return re.compile(re.escape("\n".join(expected)).replace(r"\.\.\.", r"(?s:.*)"))


@pytest.mark.parametrize("acts", read_paragraphs(Path(__file__).with_name("sentences.txt")))
async def test_sentences(call: Caller, time: GivenTime, acts: list[str]) -> None:
    for act in acts:
        await Acts(call, time).perform(act)


async def note(call: Caller, **times: int | None) -> None:
    await call.note(
        *(
            {"writer": w, "time": time, "position": {"0": 1}, "max_time": time}
            for w, time in times.items()
        )
    )


async def read_sentences(call: Caller, **query: Any) -> list[str]:  # noqa: ANN401 - any value
    found: list[str] = (await call.get(f"{S}/explain", **query)).json()["sentences"]
    return found


async def test_unnamed_holders_may_hold_longer(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision names at most a thousand holders."""
    monkeypatch.setattr(decisions, "EXCLUSIONS_FORESEEN", 1400)
    await note(call, a=5, b=9)
    for of in ("x", "y"):
        await call.note(*({"writer": f"{of}{n}"} for n in range(700)))
    *_, until, without, _, _ = await read_sentences(call)

    assert "or automatically in 1m at the earliest, when the last of them" in until
    assert without == "Leaving out only one of them changes nothing."


async def test_excluded_writers_beyond_limit_are_counted(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "MEMBERS_EXAMINED", 1)
    await note(call, osaka=HALF_PAST_TEN, lima=NINE_25)
    await call.client.delete(f"{S}/writers/lima")

    assert (await read_sentences(call))[-1] == "Excluded: 1 writer."


async def play(call: Caller, time: GivenTime, *, every_ms: int, seconds: int) -> None:
    """Have two writers note the wall clock; each waits for the other between two notes."""
    for _ in range(seconds * 1000 // every_ms):
        serve_for(call.controller, time, every_ms)
        await note(call, berlin=time.wall - 1000, osaka=time.wall - 1000)


async def test_healthy_stream_advances_between_two_notes(call: Caller, time: GivenTime) -> None:
    """The explanation names no holder."""
    await play(call, time, every_ms=1000, seconds=9)
    lower = format_time(time.wall - 1000)
    serve_for(call.controller, time, 500)
    found = (await call.get(f"{S}/explain")).json()

    assert (found["decision"], found["condition"], found["sentences"]) == (
        "hold",
        "advancing",
        [
            "s advances, 1s behind: both live writers note.",
            "No writer is excluded.",
            f"It is complete to {lower}, by berlin, osaka (2 writers, none expected).",
        ],
    )


@pytest.mark.parametrize(
    ("every_ms", "stands_ms", "condition"),
    [
        (1000, 5000, "advancing"),
        (1000, 5001, "holds"),
        (60_000, 180_000, "advancing"),
        (60_000, 180_001, "holds"),
    ],
)
async def test_stream_holds_after_three_usual_gaps(
    call: Caller, time: GivenTime, every_ms: int, stands_ms: int, condition: str
) -> None:
    """The least such time is five seconds. The page, the list and the sentences agree."""
    await call.put(S, {"writer_timeout_ms": 3_600_000})
    await play(call, time, every_ms=every_ms, seconds=every_ms * 9 // 1000)
    serve_for(call.controller, time, stands_ms)
    explained = (await call.get(f"{S}/explain")).json()
    overview = (await call.get("/v1/overview")).json()

    (row,) = overview["streams"][0]["domains"]
    verb = "advances" if condition == "advancing" else "holds"
    assert (
        explained["condition"],
        row["condition"],
        overview["conditions"],
        explained["sentences"][0].split()[1].rstrip(","),
    ) == (condition, condition, {condition: 1}, verb)
