from reader_client import ReaderClient
from tests.support.served import Served
from tests.support.waiting import PATIENCE_S
from writer_client import WriterClient


def test_a_writer_continues_with_another_controller() -> None:
    """With several URLs, the next one is asked as soon as one is away; nothing noted is lost."""
    first, second = Served(), Served()
    for served in (first, second):
        served.create("s")
    with second, WriterClient(f"{first.url},{second.url}", "s", "UA") as client:
        client.note_time(5, {0: 10})
        client.flush()
        first.stop()
        client.note_time(7, {0: 14})
        client.flush()

        heard = second.writers("s")["UA"]
        assert (heard["times"], heard["position"]) == ({"default": 7}, {"0": 14})


def test_a_reader_follows_another_controller() -> None:
    """The first of several URLs need not answer for marks to be followed."""
    away, second = Served(), Served()
    away.stop()
    second.create("s")
    second.note("s", 10, {"0": 100})
    with second, ReaderClient(f"{away.url},{second.url}", "s") as reader:
        reader.catch_up(timeout=PATIENCE_S)

        assert reader.window_at({0: 100}).lower == 10
