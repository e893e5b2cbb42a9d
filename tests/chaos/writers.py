"""Writers that keep their promises."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.honest import HonestWriter

if TYPE_CHECKING:
    import random

    from noted_time.client import Json
    from tests.chaos.scaling import ScaledStream


LEAVES = 0.2
"""How often a writer leaves rather than go idle."""


@dataclass(kw_only=True)
class LoadWriter(HonestWriter):
    """One writer that writes only what its notes leave open.

    A 200 confirmed the promises in `acknowledged`. It writes while a live note is acknowledged
    and no note that ends this is sent. Unless it `is_settled`, it stays live or idle.
    """

    stream: ScaledStream
    segments: range
    chance: random.Random
    acknowledged: dict[str, int] = field(default_factory=dict)
    acknowledged_position: dict[int, int] = field(default_factory=dict)
    lowers: dict[str, int] = field(default_factory=dict)
    state: str = "new"
    is_settled: bool = True

    def next_notes(self) -> list[Json]:
        """Write some events if that is allowed, then return the note about them."""
        if self.state == "idle" and not self.is_settled:
            return []
        if self.state != "live":  # the answers give since when it may write, for each domain
            return [self._note(domain, None) for domain in self.stream.domains]
        if self.chance.random() < self.stream.rests and self.is_settled:
            return [self._rest()]
        for _ in range(self.chance.randrange(4)):
            self._write_some()
        domain = self.chance.choice(self.stream.domains)
        return [self._note(domain, self._next_time(domain))]

    def last_notes(self, noted: int) -> list[Json]:
        """Return the note of a live writer that will write nothing below that time."""
        return [self._note(domain, noted) for domain in self.stream.domains]

    def take_answer(self, note: Json, result: Json) -> None:
        """Take in that the note is durable; raises `AssertionError` if it was refused."""
        assert result["status"] == "accepted", (note, result)
        domain, lower = note["domain"], result["lower"]
        if lower is not None:
            self.lowers[domain] = max(lower, self.lowers.get(domain, lower))
        if "time" in note:
            self.acknowledged[domain] = note["time"]
        self.acknowledged_position.update({int(s): end for s, end in note["position"].items()})
        self.state = note["state"]

    def _write_some(self) -> None:
        times = {
            domain: self._floor(domain) + self.chance.randrange(300)
            for domain in self.stream.domains
        }
        self.write(self.stream, self.chance.choice(self.segments), times)

    def _floor(self, domain: str) -> int:
        return max(self.promised.get(domain, 0), self.lowers.get(domain, 0))

    def _next_time(self, domain: str) -> int:
        return max(self._floor(domain), time.time_ns() // 1_000_000 - self.chance.randrange(100))

    def _rest(self) -> Json:
        """Go idle, or leave and never come back."""
        state = "finished" if self.chance.random() < LEAVES else "idle"
        self.state = state
        return self._note(self.stream.domains[0], None) | {"state": state}

    def _note(self, domain: str, noted: int | None) -> Json:
        position = {str(segment): end for segment, end in self.position.items()}
        note: Json = {"writer": self.name, "domain": domain, "position": position, "state": "live"}
        if noted is not None:
            note["time"] = self.promised[domain] = noted
        if domain in self.largest:
            note["max_time"] = self.largest[domain]
        return note


@dataclass(kw_only=True)
class ExcludedWriter(LoadWriter):
    """A writer that is not waited for by joining: it has to note a time above the lower.

    So it writes nothing before an answer confirms that it did. Every note has a time, as the answer
    to one without might have a lower that has passed the writer.
    """

    is_counted: bool = False

    def next_notes(self) -> list[Json]:
        """Write and note if time waits for it, else note what may bring it back."""
        if self.state == "live" and self.is_counted:
            return super().next_notes()
        return [self._note(domain, self._next_time(domain)) for domain in self.stream.domains]

    def take_answer(self, note: Json, result: Json) -> None:
        """Take in that the note is durable, and whether time waits for its writer from there."""
        super().take_answer(note, result)
        lower = result["lower"]
        self.is_counted = "time" in note and (lower is None or note["time"] > lower)
