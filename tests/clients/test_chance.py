"""What clients take from chance."""

from __future__ import annotations

import random

from reader_client.repeating import own_chance as readers
from writer_client.posting import own_chance as writers


def test_the_clients_leave_the_random_numbers_of_the_program_alone() -> None:
    """A program that seeded `random` draws the same numbers, whatever a client retries."""
    before = random.getstate()
    drawn = (writers(), readers())

    assert random.getstate() == before
    assert all(0 <= each < 1 for each in drawn)
