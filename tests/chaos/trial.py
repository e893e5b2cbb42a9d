"""One trial of any kind: work, faults that come by turns, and laws to hold it all against."""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Generic, Protocol

from tests.chaos.calls import wait_until_true
from tests.chaos.history import History, Journal, Span, now
from tests.chaos.pulse import Pulse
from tests.chaos.turns import Arena, Faults, Plan, Turn
from tests.chaos.verdict import Verdict, longest_gaps
from tests.trials.laws import LIVE, watermarks_advance

SOON_S = (0.0, 2.0)
"""How soon after one fault of a turn the next one begins."""


class Laws(Protocol):
    """The work in an arena while it fails, and the laws that hold in the end.

    All that broke is in the history. Time that stands for `moves_s` after a fault was mended is
    stuck.
    """

    history: History
    moves_s: float

    def work(self, journal: Journal, chance: random.Random) -> AbstractAsyncContextManager[None]:
        """Have all work while the block lasts, and come to an end after it."""

    async def judge(self) -> None:
        """Compare the end with the truth."""

    def count_tried(self) -> Mapping[str, int]:
        """Return how much there was of everything."""


@dataclass
class Trial(Generic[Arena]):
    """What may fail in an arena, and the laws that hold all the same, by a plan."""

    arena: Arena
    faults: Faults[Arena]
    laws: Laws
    plan: Plan
    announce: Callable[[str], None] = lambda _: None

    async def hold(self, directory: Path) -> Verdict:
        """Hold it, and leave its history in the directory."""
        begun, self._chance, history = now(), random.Random(self.plan.seed), self.laws.history
        with Journal(directory) as journal, Pulse() as pulse:
            try:
                async with self.arena:
                    async with self.laws.work(journal, self._chance):
                        await self._wait_until_time_moves("start")
                        for turn in self.plan.turns(self.arena):
                            await self._take(turn)
                        self.announce("coming to an end")
                    self.announce("judging")
                    await self.laws.judge()
            finally:
                history.counts.update(self.arena.counts)
                journal.keep(history)
        kinds = [span.kind for span in history.spans]
        return Verdict(
            seed=self.plan.seed,
            seconds=now() - begun,
            faults={kind: kinds.count(kind) for kind in sorted(set(kinds))},
            tried={"processes killed (-9)": self.arena.kills, **self.laws.count_tried()},
            counts=history.counts,
            gaps_s=longest_gaps(history.steady_chains().values(), history.spans),
            violations=tuple(history.violations),
            share=pulse.share,
        )

    async def _wait_until_time_moves(self, after: str) -> None:
        """Wait until each steady chain has grown."""
        since = self.laws.history.lengths()
        if not await wait_until_true(
            lambda: not self.laws.history.standing(since), self.laws.moves_s
        ):
            standing = ", ".join(self.laws.history.standing(since))
            account = f"not advancing: {standing}"
            self.laws.history.broke(watermarks_advance, after, account)

    async def _take(self, turn: Turn) -> None:
        """Inject the faults one soon after another; usually wait for a mark after them."""
        self.announce(f"{len(self.laws.history.spans) + 1}: {' and '.join(turn)}")
        delays = accumulate((self._chance.uniform(*SOON_S) for _ in turn[1:]), initial=0.0)
        await asyncio.gather(*map(self._fail, turn, delays))
        await self.arena.mend(self.laws.history)
        if self._chance.random() >= self.plan.quick_to_go_on:
            await self._wait_until_time_moves(" and ".join(turn))

    async def _fail(self, kind: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        begun = now()
        try:
            await self.faults[kind](self.arena)
        except (AssertionError, TimeoutError) as error:
            self.laws.history.broke(LIVE, kind, repr(error))
        self.laws.history.spans.append(Span(kind, begun, now()))
