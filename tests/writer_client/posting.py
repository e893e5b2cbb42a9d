"""Random calls of a writer, fates of its posts, and their outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from hypothesis import strategies as st

from noted_time.client import position_to_wire
from noted_time.coding import encode
from noted_time.rules import Aggregator
from noted_time.values import Accepted, Note, StreamSettings, find_gained, join_into
from writer_client.sending.answers import read_answer
from writer_client.sending.outbox import Outbox
from writer_client.sending.pending_notes import Batch

DOMAINS = ("order_time", "ship_time")
Fate = Literal["answered", "lost", "applied but not answered"]


@dataclass(frozen=True, slots=True)
class Say:
    """One call: `domain` is `None` for a change of state, `gains` has earlier rows."""

    state: Literal["live", "idle", "finished"]
    domain: str | None = None
    later: int = 0
    gains: tuple[tuple[int, int], ...] = ()
    wrote: int | None = None


@dataclass(frozen=True, slots=True)
class Wrote:
    """An event was written, and nothing noted."""

    domain: str
    time: int
    gains: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PostOnce:
    """The sender posts once, with this fate."""

    fate: Fate


Act = Say | Wrote | PostOnce

_gains = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=2).map(tuple)
_wrote = st.none() | st.integers(0, 99)
acts = st.lists(
    st.one_of(
        st.builds(
            Say,
            state=st.just("live"),
            domain=st.sampled_from(DOMAINS),
            later=st.integers(0, 5),
            gains=_gains,
            wrote=_wrote,
        ),
        st.builds(Say, state=st.sampled_from(["live", "idle", "finished"]), gains=_gains),
        st.builds(Wrote, domain=st.sampled_from(DOMAINS), time=st.integers(0, 99), gains=_gains),
        st.builds(PostOnce, fate=st.sampled_from(["answered", "lost", "applied but not answered"])),
    ),
    max_size=30,
)


def make_aggregator() -> Aggregator:
    return Aggregator(StreamSettings(domains=DOMAINS))


@dataclass
class Run:
    """One writer's outbox between its calls and a controller, and a controller notified directly.

    The writer joins first: only members may be idle or finish.
    """

    outbox: Outbox = field(default_factory=partial(Outbox, "UA"))
    heard: Aggregator = field(default_factory=make_aggregator)
    reference: Aggregator = field(default_factory=make_aggregator)
    position: dict[int, int] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    positions: list[dict[int, int]] = field(default_factory=list)
    claims: dict[tuple[str | None, int | None], list[int]] = field(default_factory=dict)
    sent: list[Note] = field(default_factory=list)
    events: list[tuple[str, int, dict[int, int]]] = field(default_factory=list)
    largest_batch: int = 0

    def __post_init__(self) -> None:
        self.outbox.change_state("live", {})
        self.notify(Note("UA"))

    def play(self, acts: Sequence[Act]) -> Run:
        for act in acts:
            if isinstance(act, PostOnce):
                self.post(act.fate)
            elif isinstance(act, Wrote):
                self.write(act)
            else:
                self.say(act)
        return self

    def write(self, act: Wrote) -> None:
        """Pass an event to the outbox, and to the reference controller at once."""
        gained_ends = self.gain(act.gains, of=(act.domain, act.time))
        self.outbox.record_write(act.time, act.domain, gained_ends)
        self.notify(Note("UA", None, dict(self.position), act.domain, act.time))

    def say(self, act: Say) -> None:
        """Call the outbox, and note at the reference controller at once."""
        gained_ends = self.gain(act.gains, of=(act.domain, act.wrote))
        time = None
        if act.domain is None:
            self.outbox.change_state(act.state, gained_ends)
        else:
            time = self.times[act.domain] = self.times.get(act.domain, 0) + act.later
            self.outbox.note(time, gained_ends, domain=act.domain, max_time=act.wrote)
            self.claims.setdefault((act.domain, time), []).append(len(self.positions))
        domain = act.domain or DOMAINS[0]
        self.notify(Note("UA", time, dict(self.position), domain, act.wrote, act.state))

    def gain(
        self, gains: Sequence[tuple[int, int]], of: tuple[str | None, int | None]
    ) -> dict[int, int]:
        """Write an event to some segments, and return their ends."""
        known_position = dict(self.position)
        domain, time = of
        gained_ends = {segment: known_position.get(segment, 0) + more for segment, more in gains}
        join_into(self.position, gained_ends)
        if domain is not None and time is not None:
            self.events.append(
                (domain, time, find_gained(gained_ends, {0: 0, 1: 0, 2: 0} | known_position))
            )
        return gained_ends

    def notify(self, note: Note) -> None:
        """Give a note to the reference controller."""
        self.positions.append(dict(self.position))
        assert isinstance(self.reference.note(note, now=0), Accepted)

    def post(self, fate: Fate) -> None:
        """Take a batch from the outbox, and deliver or lose it."""
        batch = self.outbox.take()
        self.largest_batch = max(self.largest_batch, len(batch))
        results = [] if fate == "lost" else self.apply(batch)
        if fate == "answered":
            domains = list(self.heard.settings.domains)
            answer = read_answer(encode({"results": results, "domains": domains}), len(batch))
            self.outbox.record_answer(batch, answer)
        else:
            self.outbox.put_back(batch)

    def apply(self, batch: Batch) -> list[dict[str, Any]]:
        """Deliver a batch to the controller."""
        self.sent += [pending.note for pending in batch]
        return [self._result(pending.note) for pending in batch]

    def _result(self, note: Note) -> dict[str, Any]:
        result = self.heard.note(note, now=0)
        if isinstance(result, Accepted):
            known_position = getattr(result, "position", None)
            position = None if known_position is None else position_to_wire(known_position)
            return {"status": "accepted", "lower": result.lower, "position": position}
        last = result.last
        return {
            "status": result.status,
            "last": position_to_wire(last) if isinstance(last, dict) else last,
        }

    def find_claims(self, note: Note) -> list[int]:
        """Return the calls that noted this time of the domain."""
        return self.claims[note.domain, note.time]

    def find_passed(self, note: Note) -> dict[str, int]:
        """Return the largest time of the events below a note's position, by domain."""
        largest: dict[str, int] = {}
        for domain, time, gained_ends in self.events:
            if any(note.position.get(segment, 0) >= end for segment, end in gained_ends.items()):
                largest[domain] = max(time, largest.get(domain, time))
        return largest

    def drain(self) -> Run:
        """Post until nothing waits."""
        while self.outbox:
            self.post("answered")
        return self
