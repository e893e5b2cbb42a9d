"""Schedules of two controllers over one database, searched from seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings

from controller.service.committer import Committer
from controller.service.ownership import Ownership
from noted_time import Mark
from noted_time.rules.domain import Domain
from tests.simulation.schedule import Schedule

MANY = 2 * settings().max_examples
SEARCHED = 100
"""How many seeds are searched for a fault that is put back; each is found within 11."""


@pytest.mark.parametrize("seed", range(MANY))
def test_a_schedule_breaks_no_law(seed: int) -> None:
    """A seed that does is replayed by its number."""
    assert Schedule(seed).run() == []


def test_a_seed_is_replayed() -> None:
    """All is chosen from it."""
    first, second = Schedule(1), Schedule(1)

    assert (first.run(), first.history.marks) == (second.run(), second.history.marks)


async def _serve_on(committer: Committer, *_: object) -> None:
    """Take the place of reading everything again."""
    committer.ready = True


def _keep(*_: object) -> None:
    """Take the place of dropping the streams of buckets that are lost."""


_move = Domain.move


def _move_unnamed(domain: Domain, *of: Any, **given: Any) -> Mark:  # noqa: ANN401 - as `move`
    """Take the place of naming who is missing."""
    return replace(_move(domain, *of, **given), excluded=())


@pytest.mark.parametrize(
    ("owner", "method", "instead"),
    [
        (Committer, "_reload", _serve_on),
        (Ownership, "_drop_outside", _keep),
        (Domain, "move", _move_unnamed),
    ],
)
def test_a_fault_that_is_put_back_is_found(
    owner: type,
    method: str,
    instead: Callable[..., object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a law, or by an answer that no controller should give."""
    monkeypatch.setattr(owner, method, instead)

    assert any(_breaks(seed) for seed in range(SEARCHED))


def _breaks(seed: int) -> bool:
    try:
        return bool(Schedule(seed).run())
    except Exception:  # noqa: BLE001 - an answer to a writer that a client would not understand
        return True
