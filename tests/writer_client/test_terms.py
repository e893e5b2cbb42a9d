"""The terms of a writer: timeout, domains, and idle state."""

import threading
from typing import Any

import pytest

from demo.trials.served import Served
from noted_time import InvalidNote, Rejected
from tests.writer_client.scripted import URL, Scripted
from writer_client import WriterClient


def test_timeout_and_domains_are_stored(served: Served, stream: str) -> None:
    """Later notes without them change nothing."""
    served.create(stream, domains=["default", "order", "ship"])
    terms = []
    options: dict[str, Any] = {"timeout_ms": 5_400_000, "domains": ["order", "ship"]}
    for given in (options, {}):
        with WriterClient(served.url, stream, "UA", **given) as client:
            client.join()
        (shown,) = served.call("GET", f"/{stream}/writers")["writers"]
        terms.append((shown["timeout_ms"], shown["domains"]))

    assert terms == [(5_400_000, ["order", "ship"])] * 2


def test_writer_reports_why_it_does_not_note(served: Served, stream: str) -> None:
    """The reason lasts until the writer withdraws it or leaves."""
    shown = []
    with WriterClient(served.url, stream, "UA") as client:
        client.note_time(5, {0: 10})
        for reason in ("one event\n\u202eis lost ", "x" * 300, None, "again"):
            client.hold(reason)
            client.flush()
            shown.append(served.call("GET", f"/{stream}/writers/UA")["held"])
        client.idle()
        client.flush()
        shown.append(served.call("GET", f"/{stream}/writers/UA")["held"])

    assert shown == ["one event is lost", "x" * 200, None, "again", None]


def test_note_outside_vouched_domains_is_refused() -> None:
    """The error has the remedy."""
    network = Scripted()
    with (
        WriterClient(URL, "s", "UA", domains=["ship"], transport=network) as client,
        pytest.raises(InvalidNote, match="not_vouched: it vouches for ship; add the domain to"),
    ):
        client.note_time(5, {0: 10}, domain="order")

    assert network.notes == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeout_ms": 0}, "timeout_ms must be 1 or more, not 0"),
        ({"idle_after_ms": 0}, "idle_after_ms must be 1 or more, not 0"),
        ({"domains": []}, "domains must be a list of one or more names"),
        ({"domains": "ship"}, "domains must be a list of one or more names, not 'ship'"),
        ({"domains": ["a b"]}, "domain 'a b' is not 1 to 249"),
    ],
)
def test_invalid_terms_are_refused(options: dict[str, Any], said: str) -> None:
    """The constructor raises."""
    with pytest.raises(Rejected) as raised:
        WriterClient(URL, "s", "UA", transport=Scripted(), **options)

    assert said in str(raised.value)


class Noticing(Scripted):
    """Sets `idle` when a writer notes that it is."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = threading.Event()

    def _answer(self, request: Any) -> Any:  # noqa: ANN401 - httpx's own
        answer = super()._answer(request)
        if self.notes[-1]["state"] == "idle":
            self.idle.set()
        return answer


def test_a_silent_writer_goes_idle_by_itself() -> None:
    """At its noted position; the next note brings it back."""
    network = Noticing()
    with WriterClient(URL, "s", "UA", idle_after_ms=30, transport=network) as client:
        client.wrote(7, position={0: 12})
        assert network.idle.wait(60)
        idle = client.state
        client.note_time(8, {0: 12})

    said = [(note["state"], note.get("time")) for note in network.notes]
    assert (idle, said[:3]) == ("idle", [("live", None), ("idle", None), ("live", 8)])


def test_a_writer_is_not_idle_while_it_writes() -> None:
    """An open block counts as writing, however long it takes."""
    network = Noticing()
    with WriterClient(URL, "s", "UA", idle_after_ms=20, transport=network) as client:
        with client.writing():
            client.join()
            assert not network.idle.wait(0.1)
        assert network.idle.wait(60)


@pytest.mark.parametrize("leave", ["idle", "finish"])
def test_an_unknown_writer_cannot_leave(served: Served, stream: str, leave: str) -> None:
    """A mistyped name makes no member; its client continues, and may join by a note."""
    with WriterClient(served.url, stream, "UB") as client:
        with pytest.raises(InvalidNote, match="refused as unknown_writer: it never joined"):
            _ = getattr(client, leave)() or client.flush()
        before = served.writers(stream)
        client.note_time(5, {0: 10})

    assert (before, list(served.writers(stream))) == ({}, ["UB"])


def test_writer_of_a_recreated_stream_joins_to_finish(served: Served, stream: str) -> None:
    """The controller forgot it, and learns it once more, with its terms."""
    with WriterClient(served.url, stream, "UA", timeout_ms=5_400_000) as client:
        client.note_time(5, {0: 10})
        client.flush()
        served.call("DELETE", f"/{stream}")
        served.create(stream)
        client.finish()

    (shown,) = served.call("GET", f"/{stream}/writers")["writers"]
    assert (shown["state"], shown["timeout_ms"], shown["domains"]) == ("finished", 5_400_000, None)
