"""Clients with several controllers, and their use of random numbers."""

import random

from noted_time.client import draw_chance
from reader_client import ReaderClient
from tools.trials.served import Served
from tools.trials.waiting import PATIENCE_S
from writer_client import WriterClient


def test_a_writer_continues_with_another_controller() -> None:
    """The client calls the next URL as soon as one is away, and loses no note."""
    first = Served()
    second = Served()
    for server in (first, second):
        server.create("s")
    with second, WriterClient("s", "UA", controller=f"{first.url},{second.url}") as client:
        client.note_time(5, {0: 10})
        client.flush()
        first.stop()
        client.note_time(7, {0: 14})
        client.flush()

        heard = second.writers("s")["UA"]
        assert (heard["times"], heard["position"]) == ({"default": 7}, {"0": 14})


def test_a_reader_follows_another_controller() -> None:
    """The first of several URLs need not answer."""
    away = Served()
    second = Served()
    away.stop()
    second.create("s")
    second.note("s", 10, {"0": 100})
    with second, ReaderClient("s", controller=f"{away.url},{second.url}") as reader:
        reader.catch_up(timeout=PATIENCE_S)

        assert reader.window_at({0: 100}).lower == 10


# Random numbers


def test_clients_do_not_draw_from_the_programs_random_numbers() -> None:
    """A program that seeded `random` draws the same numbers after retries."""
    before = random.getstate()
    chances = (draw_chance(), draw_chance())

    assert random.getstate() == before
    assert all(0 <= chance < 1 for chance in chances)
