"""What administrators do while others write and read: streams are scaled and truncated."""

import asyncio
import random
from collections.abc import Iterable, Mapping

from noted_time.client import Json, position_to_wire
from noted_time.values import reaches
from tests.trials.actors.calls import Caller, rest
from tests.trials.actors.history import Chain, History, now
from tests.trials.actors.load import ScaledStream
from tests.trials.facts import Scaling, complete
from tests.trials.laws import marks_begin, scalings_last

SCALES_S = (0.5, 1.5)
"""How long until the first scaling; later ones come ever more seldom, as each makes cuts longer."""

TELLS_S = (0.0, 1.5)
"""How long until a scaling is announced, while writers already note later rows."""

TRUNCATES_S = (0.5, 3.0)


class Administering:
    """The scalings and truncations of one trial, until asked to stop."""

    def __init__(self, history: History, stopping: asyncio.Event) -> None:
        self._history = history
        self._stopping = stopping

    # Scaling

    async def scale(self, caller: Caller, stream: ScaledStream) -> None:
        """Split and merge segments of the stream."""
        chance = caller.chance
        while not self._stopping.is_set():
            seldom = 1 + len(stream.scalings) / 4
            await rest(self._stopping, chance.uniform(*SCALES_S) * seldom)
            scaling = stream.scale(chance)
            if scaling is not None:
                await rest(self._stopping, chance.uniform(*TELLS_S))
                path = f"/v1/streams/{stream.name}/scale"
                self._take_scaling(stream, await caller.call("POST", path, json=scaling.to_wire()))
                await self._write_beyond(caller, stream, scaling)

    def _take_scaling(self, stream: ScaledStream, answer: Json) -> None:
        """Take in that the last scaling is durable, and which marks were made before."""
        stream.heard_at.append(now())
        self._history.counts["scalings"] += 1
        for domain, mark in answer["marks"].items():
            self._history.chains[stream.name, domain].scaled_at.append(mark["seq"] if mark else 0)

    async def _write_beyond(self, caller: Caller, stream: ScaledStream, scaling: Scaling) -> None:
        """Be a stray writer that knows of no scaling, and has to be refused."""
        segment, end = next(iter(scaling.sealed.items()))
        note = {"writer": "stray", "position": position_to_wire({segment: end + 1})}
        path = f"/v1/streams/{stream.name}/notes"
        answer = await caller.call("POST", path, json={"notes": [note]})
        result = answer["results"][0]
        if result != {"status": "invalid_position", "last": position_to_wire({segment: end})}:
            self._history.broke(scalings_last, stream.name, f"{note} was answered {result}")

    # Truncation

    async def truncate(self, caller: Caller, stream: ScaledStream) -> None:
        """Drop the marks that the stream's readers have passed, now and then."""
        chains = self._history.chains_of(stream)
        path = f"/v1/streams/{stream.name}/truncate"
        while not self._stopping.is_set():
            await rest(self._stopping, caller.chance.uniform(*TRUNCATES_S))
            cut = self._choose_cut(stream, caller.chance)
            firsts = self._firsts(stream, cut)
            if firsts is None:
                continue
            for domain, chain in chains.items():
                chain.first_asked = firsts[domain]
            answer = await caller.call("POST", path, json={"cut": position_to_wire(cut)})
            for domain, chain in chains.items():
                dropped_count = firsts[domain] - chain.first_heard
                chain.first_heard = firsts[domain]
                self._history.counts["marks truncated"] += dropped_count
                if answer["marks"][domain] is None:
                    place = f"{stream.name}/{domain}"
                    self._history.broke(marks_begin, place, "the last mark is lost")

    def _choose_cut(self, stream: ScaledStream, chance: random.Random) -> dict[int, int]:
        """Return the cut of a mark that the group has passed, or an empty cut."""
        chain = self._history.chains[stream.name, chance.choice(stream.domains)]
        reported_position = complete(self._history.reported.get(stream.name, {}), stream.scalings)
        last = _last_reached(chain, reported_position)
        if last is None:
            return {}
        seq = chance.randint(chain.first_asked, last)
        cut = complete(chain.cut(seq), stream.scalings)
        return cut if reaches(reported_position, cut) else {}

    def _firsts(self, stream: ScaledStream, cut: Mapping[int, int]) -> dict[str, int] | None:
        """Return the first mark of each domain that is left by a truncation there.

        `None` if it would drop nothing, or might drop marks that no follower has seen: then the
        history would have a gap.
        """
        firsts = {}
        drops = False
        for domain, chain in self._history.chains_of(stream).items():
            last = _last_reached(chain, cut)
            if last is None:
                return None
            firsts[domain] = last
            drops |= last > chain.first_asked
        return firsts if drops else None


async def set_writer_timeout(caller: Caller, streams: Iterable[str], seconds: float) -> None:
    """Change the timeout of the streams."""
    for stream in streams:
        body = {"writer_timeout_ms": int(seconds * 1000)}
        await caller.call("PUT", f"/v1/streams/{stream}", json=body)


def _last_reached(chain: Chain, cut: Mapping[int, int]) -> int | None:
    """Return the last mark that the cut reaches, or else the first that is left.

    `None` if a follower may not have seen it.
    """
    seq = chain.first_asked
    seen_seq = min(chain.followers, default=0)
    while seq < seen_seq:
        if not reaches(cut, chain.cut(seq + 1)):
            return seq
        seq += 1
    return None
