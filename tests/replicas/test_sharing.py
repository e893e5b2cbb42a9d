from dataclasses import dataclass, field
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from controller.service.ownership import Share, share
from controller.store.port import Leases

ROUNDS = 4
"""More turns of all than it may take until nothing changes any more."""


@dataclass
class Sharer:
    """One controller as the others see it: what it has, and what it saw when it looked last."""

    name: str
    mine: set[int] = field(default_factory=set)
    seen: Leases | None = None


@dataclass
class Population:
    """Controllers that look and act by turns, each by what it saw; the truth is in `sharers`.

    `moves` has every bucket that changed hands since it was emptied, as often as it did.
    """

    buckets: int
    chance: Random
    sharers: list[Sharer] = field(default_factory=list)
    made: int = 0
    moves: list[int] = field(default_factory=list)

    def join(self) -> None:
        """Let a controller start, with nothing."""
        self.made += 1
        self.sharers.append(Sharer(f"http://{self.made}"))

    def die(self) -> None:
        """End one of them by chance, however much it has."""
        if self.sharers:
            self.sharers.remove(self.chance.choice(self.sharers))

    def look(self, sharer: Sharer) -> None:
        """Let one read the owners."""
        others = {
            bucket: other.name
            for other in self.sharers
            if other is not sharer
            for bucket in other.mine
        }
        mine = frozenset(sharer.mine)
        sharer.seen = Leases(self.buckets, mine, others, len(self.sharers))

    def act(self, sharer: Sharer) -> Share:
        """Let one follow its last look; it gets only what is free."""
        if sharer.seen is None:
            return Share()
        decided, sharer.seen = share(sharer.seen, self.chance), None
        taken = decided.acquire & self.free
        sharer.mine = (sharer.mine | taken) - decided.release
        self.moves += [*taken]
        return decided

    def stir(self, steps: int) -> None:
        """Let controllers come, go, look and act in any order."""
        for _ in range(steps):
            do = self.chance.choice([self.join, self.die, self._any_looks, self._any_acts])
            do()

    def settle(self) -> None:
        """Let all act on old looks, then on looks that may be old by a turn."""
        self._all_act()
        for sharer in self.sharers:
            self.look(sharer)
        self.moves.clear()
        for _ in range(ROUNDS):
            self._all_act()
            for sharer in self._shuffled():
                self.look(sharer)
                if self.chance.random() < 0.5:  # the others look first, and see what was before
                    self.act(sharer)

    @property
    def free(self) -> set[int]:
        """The buckets without an owner."""
        return set(range(self.buckets)).difference(*(sharer.mine for sharer in self.sharers))

    def _all_act(self) -> None:
        for sharer in self._shuffled():
            self.act(sharer)

    def _shuffled(self) -> list[Sharer]:
        return self.chance.sample(self.sharers, len(self.sharers))

    def _any_looks(self) -> None:
        if self.sharers:
            self.look(self.chance.choice(self.sharers))

    def _any_acts(self) -> None:
        if self.sharers:
            self.act(self.chance.choice(self.sharers))


@st.composite
def stirred(draw: st.DrawFn) -> Population:
    """Draw a population after any history, with at least one that lives."""
    population = Population(draw(st.integers(1, 64)), Random(draw(st.integers(0, 2**32))))
    for _ in range(draw(st.integers(0, 5))):
        population.join()
    population.stir(draw(st.integers(0, 80)))
    population.join()
    return population


@given(population=stirred())
def test_everybody_comes_to_its_share_and_stays_there(population: Population) -> None:
    """Whatever happened before, none has more than its share in the end, and nothing is free.

    Once all know how many there are, what is taken is kept: streams are loaded once. Then nothing
    moves any more, though all look again and again.
    """
    population.settle()
    free, moves = population.free, list(population.moves)
    most = max(len(sharer.mine) for sharer in population.sharers)
    decided = []
    for sharer in population.sharers:
        population.look(sharer)
        decided.append(population.act(sharer))

    fair = -(-population.buckets // len(population.sharers))
    assert (free, most <= fair, len(moves)) == (set(), True, len(set(moves)))
    assert decided == [Share()] * len(population.sharers)


@given(
    buckets=st.integers(1, 64),
    replicas=st.integers(1, 80),
    owners=st.lists(st.integers(-1, 4), min_size=64, max_size=64),
    seed=st.integers(0, 2**32),
)
def test_one_decision_takes_what_is_free_or_gives_of_its_own(
    buckets: int, replicas: int, owners: list[int], seed: int
) -> None:
    """Never both, never more than leads to the share, never what another is seen to have."""
    mine = frozenset(bucket for bucket in range(buckets) if owners[bucket] == 0)
    others = {bucket: "http://b" for bucket in range(buckets) if owners[bucket] > 0}
    leases = Leases(buckets, mine, others, replicas)
    todo = share(leases, Random(seed))

    fair = -(-buckets // replicas)
    assert todo.acquire <= leases.free
    assert todo.release <= mine
    assert len(todo.release) == max(0, len(mine) - fair)
    assert len(todo.acquire) == min(max(0, fair - len(mine)), len(leases.free))


def test_two_that_look_at_once_seldom_try_for_the_same() -> None:
    """Of 64 free buckets both want 22: in the mean they get 36 different ones, not 22."""
    free = Leases(64, frozenset(), {}, replicas=3)
    wanted = [share(free, Random(seed)).acquire for seed in range(200)]
    got = [len(one | other) for one, other in zip(wanted[::2], wanted[1::2], strict=True)]

    assert 3400 < sum(got) < 3900


def test_one_alone_takes_everything() -> None:
    """A single replica serves all streams from its first turn on."""
    assert share(Leases(64, frozenset()), Random(1)).acquire == frozenset(range(64))
