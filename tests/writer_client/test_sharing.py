"""Observers that share a stream, one writer a partition, with a group that the test assigns."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any

import pytest
from typer.testing import CliRunner

from noted_time import InvalidNote, Rejected, Unreachable
from noted_time_cli.app import app
from tests.support.served import Served
from tests.support.waiting import wait_until
from writer_client import EventTimeNoter, Seen, WriterClient
from writer_client.observing import shared as kafka_sharing
from writer_client.observing.partition_writers import PartitionWriters
from writer_client.observing.shared import SharedObserver


class Group:
    """A consumer group of one process, which the test assigns partitions to."""

    session_ms = 1

    def __init__(
        self, _: object, __: str, name: str, gone: Callable[[Iterable[int]], None]
    ) -> None:
        self.name, self.gone = name, gone
        self.assigned: set[int] = set()
        self.rows: Mapping[int, int] = {}

    def partitions(self) -> Iterable[int]:
        """Return all partitions."""
        return self.rows

    def close(self) -> None:
        """Do nothing."""


def writers_of(
    served: Served, stream: str, *, domain: str = "default", timeout_ms: int = 60_000
) -> PartitionWriters:
    """Return the writers `observer-0`, `observer-1`, and so on."""
    return PartitionWriters(served.url, stream, "observer", domain=domain, timeout_ms=timeout_ms)


def test_time_waits_for_a_writer_that_never_noted_and_others_are_left_alone(
    served: Served, stream: str
) -> None:
    """Whoever sees its partition first has it join, and takes no name over."""
    with (
        WriterClient(served.url, stream, "observer-0", timeout_ms=7000) as owner,
        closing(writers_of(served, stream)) as writers,
    ):
        owner.join()
        owner.idle({0: 5})
        owner.flush()
        writers.wait_for([0, 1])
        idle = served.writers(stream)["observer-0"]["state"]
        owner.note_time(5, {0: 6})
        owner.flush()

    rows = served.get(f"{stream}/writers")["writers"]
    terms = {row["writer"]: row["timeout_ms"] for row in rows}
    assert (idle, terms) == ("idle", {"observer-0": 7000, "observer-1": 60_000})


def test_writers_that_cannot_join_are_named(served: Served, stream: str) -> None:
    """Here for a domain that the stream does not declare."""
    with (
        closing(writers_of(served, stream, domain="ingestion")) as writers,
        pytest.raises(InvalidNote, match="'observer-3' refused as unknown_domain"),
    ):
        writers.wait_for([3])


def test_the_command_has_the_stream_expect_all_writers(served: Served, stream: str) -> None:
    """Those that it expects already stay; then there is nothing to do."""
    served.create(stream, expected_writers=["UA"])
    with closing(writers_of(served, stream)) as writers:
        command = writers.command([1, 0])
        assert command is not None
        done = CliRunner().invoke(app, shlex.split(command)[1:], env={"NOTED_TIME_URL": served.url})
        then = writers.command([0, 1])

    assert (done.exit_code, then) == (0, None), done.output
    assert served.writers(stream).keys() == {"UA", "observer-0", "observer-1"}


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[Group]:
    """Return the groups of the observers that the test makes, in their order."""
    made: list[Group] = []

    def group(*arguments: Any) -> Group:  # noqa: ANN401 - as those of Group
        made.append(Group(*arguments))
        return made[-1]

    monkeypatch.setattr(kafka_sharing, "PartitionGroup", group)
    return made


@pytest.fixture
def sharing(
    served: Served, stream: str, groups: list[Group]
) -> Iterator[Callable[..., SharedObserver]]:
    """Return what makes an observer of rows: how many, by partition; the last has that time."""
    assert not groups
    with ExitStack() as made:

        def observer(rows: Mapping[int, int], timeout_ms: int = 60_000) -> SharedObserver:
            shared = SharedObserver(
                {},
                stream,
                writers_of(served, stream, timeout_ms=timeout_ms),
                lambda _: lambda: Seen(dict(rows), dict(rows), max(rows.values())),
                lambda client, view: EventTimeNoter(client, view, delay_ms=0),
            )
            groups[-1].rows = rows
            return made.enter_context(closing(shared))

        yield observer


def test_a_new_partition_holds_time_until_its_observer_has_noted(
    served: Served, stream: str, groups: list[Group], sharing: Callable[..., SharedObserver]
) -> None:
    """Each process notes the partitions that it has, and no longer one that it loses."""
    rows = {0: 100, 1: 70}
    one, two = sharing(rows), sharing(rows)
    one.begin()
    groups[0].assigned, groups[1].assigned = {0}, {1}
    one.look()
    states = {name: row["state"] for name, row in served.writers(stream).items()}
    two.look()
    wait_until(lambda: served.get(stream)["marks"]["default"])
    rows |= {0: 120, 1: 110, 2: 90}
    one.look()
    two.look()
    wait_until(lambda: served.writers(stream)["observer-1"]["times"] == {"default": 110})
    held = served.lower(stream)
    groups[0].assigned, groups[1].assigned = {0, 1, 2}, set()
    groups[1].gone([1])
    one.look()
    wait_until(lambda: served.lower(stream) == 90)

    assert (states, held) == ({"observer-0": "live", "observer-1": "live"}, 70)
    assert (one.partitions, two.partitions) == ([0, 1, 2], [])
    assert {group.name for group in groups} == {f"noted-time.{stream}.observer"}


def test_a_partition_that_a_look_does_not_know_yet_is_not_noted(
    served: Served, stream: str, groups: list[Group], sharing: Callable[..., SharedObserver]
) -> None:
    """The group knows it from another broker: that it is empty may not be true."""
    one = sharing({0: 100})
    groups[0].assigned = {0, 1}
    one.look()
    wait_until(lambda: served.writers(stream)["observer-0"]["times"] == {"default": 100})
    one.close()

    assert served.writers(stream)["observer-1"]["times"] == {}


def test_while_kafka_is_away_time_waits_for_the_writers(
    served: Served,
    stream: str,
    groups: list[Group],
    sharing: Callable[..., SharedObserver],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If all of them timed out, it would advance to the time of the one that is ahead."""
    rows = {0: 100}
    one = sharing(rows)
    groups[0].assigned = {0}
    one.look()
    wait_until(lambda: served.get(stream)["marks"]["default"])
    before = served.get(f"{stream}/writers/observer-0")["noted_at"]

    def away() -> None:
        raise Unreachable("no broker answers")

    monkeypatch.setattr(one, "_look", away)

    def is_heard() -> bool:
        with pytest.raises(Unreachable, match="no broker answers"):
            one.look()
        return bool(served.get(f"{stream}/writers/observer-0")["noted_at"] > before)

    wait_until(is_heard)


def test_a_partition_that_another_group_took_is_taken_back_while_it_is_assigned(
    groups: list[Group], sharing: Callable[..., SharedObserver], caplog: pytest.LogCaptureFixture
) -> None:
    """So none stays without an observer; each time a warning says what is wrong."""
    rows = {0: 100}
    one, two = sharing(rows), sharing(rows)
    for each, group in zip((one, two), groups, strict=True):
        group.assigned = {0}
        each.look()
    rows[0] = 110
    older = one._observers[0].client
    one.look()
    wait_until(lambda: older.is_fenced)
    one.look()
    fenced = one.partitions
    while not one.partitions:  # after a session of the group, which is a millisecond
        one.look()

    assert (fenced, one.partitions) == ([], [0])
    assert "give one of them other names" in caplog.text


def test_a_timeout_that_a_handover_may_exceed_is_refused(
    sharing: Callable[..., SharedObserver],
) -> None:
    """Time would advance without the partitions of a process that ended."""
    with pytest.raises(Rejected, match="timeout must be above 3 ms, not 3"):
        sharing({}, timeout_ms=3)
