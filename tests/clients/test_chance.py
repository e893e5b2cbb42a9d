"""What clients take from chance."""

import random

from noted_time.client import own_chance


def test_the_clients_leave_the_random_numbers_of_the_program_alone() -> None:
    """A program that seeded `random` draws the same numbers, whatever a client retries."""
    before = random.getstate()
    drawn = (own_chance(), own_chance())

    assert random.getstate() == before
    assert all(0 <= each < 1 for each in drawn)
