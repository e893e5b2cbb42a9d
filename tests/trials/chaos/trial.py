"""One trial of any kind: work, faults that come by turns, and laws to hold it all against."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

from tests.trials.actors.calls import wait_until_true
from tests.trials.actors.history import History, Journal, NoteRecorder, Span, now
from tests.trials.chaos.pulse import Pulse
from tests.trials.chaos.verdict import Verdict, longest_gaps
from tests.trials.laws import LIVE, watermarks_advance


class Killing(Protocol):
    """The place of a trial: processes that live as long as its block, and their counts."""

    kills: int
    counts: Counter[str]

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def mend(self, history: History) -> None:
        """Start again what ended by itself, and have the history remember it."""


Arena = TypeVar("Arena", bound=Killing)
Faults = Mapping[str, Callable[[Arena], Awaitable[None]]]

Turn = tuple[str, ...]
"""Faults that begin one soon after the other."""

KILLING = 0.55
"""How often a turn of a mixed trial is a kill, if kills are among the faults."""

TOGETHER = (16, 3, 1)
"""How often one, two and three faults come together."""


def mix_faults(
    faults: Sequence[str], chance: random.Random, goes_on: Callable[[], bool]
) -> Iterator[Turn]:
    """Make faults by chance, often a kill and sometimes several, until the trial ends."""
    kills = [fault for fault in faults if fault.startswith("kill")]
    while goes_on():
        (count,) = chance.choices(range(1, len(TOGETHER) + 1), TOGETHER)
        turn = dict[str, None]()  # each fault once, in order
        for _ in range(count):
            are_kills = bool(kills) and chance.random() < KILLING
            turn[chance.choice(kills if are_kills else faults)] = None
        yield tuple(turn)


@dataclass(frozen=True, slots=True)
class Plan:
    """The faults of a trial, by chance from a seed.

    `quick_to_go_on` is how often the next turn begins before time has moved again everywhere.
    """

    seed: int
    turns: Callable[[Killing], Iterable[Turn]]
    quick_to_go_on: float = 0.0


SOON_S = (0.0, 2.0)
"""How soon after one fault of a turn the next one begins."""


class Laws(Protocol):
    """The work in an arena while it fails, and the laws that hold in the end.

    All that broke is in the history. Time that stands for `moves_s` after a fault was mended is
    stuck.
    """

    history: History
    moves_s: float

    def work(
        self, record: NoteRecorder, chance: random.Random
    ) -> AbstractAsyncContextManager[None]:
        """Have all work while the block lasts, and come to an end after it."""

    async def judge(self) -> None:
        """Compare the end with the truth."""

    def count_tried(self) -> Mapping[str, int]:
        """Return how much there was of everything."""


def keep_silent(_: str) -> None:
    """Announce nothing."""


@dataclass
class Trial(Generic[Arena]):
    """What may fail in an arena, and the laws that hold all the same, by a plan."""

    arena: Arena
    faults: Faults[Arena]
    laws: Laws
    plan: Plan
    announce: Callable[[str], None] = keep_silent

    async def hold(self, directory: Path) -> Verdict:
        """Hold it, and leave its history in the directory."""
        begun_at = now()
        self._chance = random.Random(self.plan.seed)
        history = self.laws.history
        with Journal(directory) as journal, Pulse() as pulse:
            try:
                async with self.arena:
                    async with self.laws.work(journal.note, self._chance):
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
            seconds=now() - begun_at,
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
        begun_at = now()
        try:
            await self.faults[kind](self.arena)
        except (AssertionError, TimeoutError) as error:
            self.laws.history.broke(LIVE, kind, repr(error))
        self.laws.history.spans.append(Span(kind, begun_at, now()))
