"""Where time has to be when all writers have said their last."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.chaos.history import History

NOTHING = -1
"""Before every time that these writers note."""


def last_time(history: History) -> int:
    """Return a time above all that was ever noted."""
    writers = [writer for stream in history.streams.values() for writer in stream.writers]
    return 1 + max(
        (noted for writer in writers for noted in writer.promised.values()), default=NOTHING
    )


def late(history: History, last: int) -> list[str]:
    """Return the domains whose time is not where it has to be, and where it stands.

    That is `last`, which every live writer has noted, and the highest time noted where none lives.
    """
    found = []
    for (stream, domain), chain in history.chains.items():
        lower = NOTHING if chain.lower is None else chain.lower
        due = _due(history, stream, domain, last)
        if lower < due:
            found.append(f"{stream}/{domain} stands at {lower}, not {due}")
    return found


def _due(history: History, stream: str, domain: str, last: int) -> int:
    silent = history.silent.get(stream)
    writers = [each for each in history.streams[stream].writers if each.name != silent]
    if any(writer.state == "live" for writer in writers):
        return last
    return max((writer.acknowledged.get(domain, NOTHING) for writer in writers), default=NOTHING)
