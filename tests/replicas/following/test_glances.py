"""What lists show of streams, followed or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.replicas.conftest import make
from tests.support.stored import mark

if TYPE_CHECKING:
    from controller.service.following import Following
    from tests.replicas.conftest import Written

pytestmark = pytest.mark.anyio


async def test_a_glance_reads_the_last_mark_only_and_follows_nothing(
    following: Following,
) -> None:
    """A list of many streams is told without their histories."""
    glanced = (await following.glances(["s"]))["s"]

    assert (glanced.history(None).after(0, 10), len(following)) == ([mark(3).mark], 0)


async def test_a_glance_at_a_stream_that_is_not_there_shows_none(following: Following) -> None:
    """It may have been removed since the names were read."""
    assert list(await following.glances(["s", "t"])) == ["s"]


async def test_a_glance_at_a_fresh_stream_costs_no_reading(
    following: Following, written: Written
) -> None:
    """It is shown as it is followed."""
    stream = await following.stream("s")

    assert (await following.glances(["s"]), written.readings) == ({"s": stream}, 1)


async def test_the_names_are_those_of_the_database(following: Following, written: Written) -> None:
    """In order, whether they are followed or not."""
    make(written, "a", "id-2")

    assert await following.names() == ["a", "s"]
