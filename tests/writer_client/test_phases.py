"""The table of a producer's phases, held against what calls and faults lead to."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from noted_time import NotedTimeError, StreamCut, Unreachable
from tests.writer_client.test_delivery import Message, Noting
from writer_client.kafka import channel as channels
from writer_client.kafka.channel import Channel
from writer_client.sending.delivery import DeliveryTracker, OnFailure
from writer_client.sending.producer_state import ProducerState

FAULTS = {
    "slow": KafkaError(KafkaError.REQUEST_TIMED_OUT, "slow", retriable=True),
    "aborts": KafkaError(KafkaError.INVALID_TXN_STATE, "aborts", txn_requires_abort=True),
    "refuses": KafkaError(KafkaError.INVALID_TXN_STATE, "refuses"),
    "is fenced": KafkaError(KafkaError.PRODUCER_FENCED, "is fenced", fatal=True),
}
CALLS = ("produce", "produce", "fail", "note", "begin", "begin", "commit", "commit", "abort")
SELDOM = ("deliver", "rest", "forgive", "poll", "close", "controller", *FAULTS)
OVER = -1.0
"""A timeout that is over: one attempt is made."""


def table() -> set[tuple[ProducerState, ProducerState]]:
    """Return the moves of the table in the docstring of `ProducerState`."""
    rows = re.findall(r"\| ([A-Z, ]+|each) \| ([A-Z, ]+) \|", ProducerState.__doc__ or "")
    return {
        (ProducerState[a], ProducerState[b])
        for before, after in rows
        for a in (ProducerState.__members__ if before == "each" else before.split(", "))
        for b in after.split(", ")
    }


class Tracker(DeliveryTracker):
    """Remembers each move."""

    def __setattr__(self, name: str, value: object) -> None:
        if name == "phase" and hasattr(self, "phase"):
            self.moves.append((self.phase, value))
        elif name == "phase":
            self.moves: list[tuple[ProducerState, object]] = []
        super().__setattr__(name, value)


class Kafka:
    """A producer of confluent-kafka whose calls fail once after each fault."""

    def __init__(self) -> None:
        self.faults: deque[KafkaError] = deque()
        self.queued: list[Callable[[], object]] = []

    def __len__(self) -> int:
        return len(self.queued)

    def poll(self, _timeout: float = 0) -> int:
        """Report all deliveries."""
        reports, self.queued = self.queued, []
        for report in reports:
            report()
        return len(reports)

    flush = poll

    def call(self, _timeout: float = 0) -> None:
        """Begin, commit or abort."""
        if self.faults:
            raise KafkaException(self.faults.popleft())

    init_transactions = begin_transaction = commit_transaction = abort_transaction = call


class Client(Noting):
    """A client whose controller may be away."""

    is_away = False

    @staticmethod
    def find_cut_without_log() -> StreamCut:
        """No marks are known."""
        return StreamCut({})

    def flush(self, _timeout: float = 0) -> None:
        """Raise once if the controller is away."""
        if self.is_away:
            self.is_away = False
            raise Unreachable("no controller answers")

    def end(self, timeout_s: float) -> None:
        """End."""


class Walk:
    """Calls in an order that nobody plans."""

    def __init__(self, on_failure: OnFailure, *, is_transactional: bool) -> None:
        config = {"transactional.id": "orders"} if is_transactional else {}
        client: Any = Client
        self.channel = Channel(config, "orders", client, domains=None, on_failure=on_failure)
        self.kafka: Any = self.channel.kafka
        self.client: Any = self.channel.client
        self.tracker: Any = self.channel.tracker
        self.time = self.offset = 0
        self.calls: dict[str, Callable[[], object]] = {
            **{each.__name__: each for each in (self.start, self.produce, self.fail, self.note)},
            "begin": self.channel.begin_transaction,
            "commit": lambda: self.channel.commit_transaction(OVER),
            "abort": lambda: self.channel.abort_transaction(OVER),
            "deliver": lambda: self.channel.deliver(0.0),
            "rest": lambda: self.channel.rest(0.0, self.client.idle),
            "forgive": self.channel.forgive,
            "poll": lambda: self.channel.poll(0),
            "close": self.channel.close,
            "controller": lambda: setattr(self.client, "is_away", True),
        }

    def step(self, name: str) -> None:
        """Call, or have the next call of Kafka or the controller fail."""
        if name in FAULTS:
            self.kafka.faults.append(FAULTS[name])
            return
        with suppress(NotedTimeError):
            self.calls[name]()

    def start(self) -> None:
        """Begin."""
        self.channel.begin()
        self.tracker.move(ProducerState.CLEAR)

    def produce(self) -> None:
        """Produce an event, as the producer does."""
        self.channel.check_event()
        if self.tracker.phase is self.channel.produces_in:
            self.channel.join_again()
            epoch, at = self.tracker.produced(self.time), self.offset
            self.offset += 1
            self.kafka.queued.append(lambda: epoch.on_delivery(None, Message(0, at)))

    def fail(self) -> None:
        """Produce an event that is not delivered."""
        before = len(self.kafka.queued)
        self.produce()
        if len(self.kafka.queued) > before:
            epoch = self.tracker._open
            self.kafka.queued[-1] = lambda: epoch.on_delivery("too large", Message(0, 0))

    def note(self) -> None:
        """Note a time."""
        self.channel.check()
        self.time += 1
        self.tracker.note(self.time)


@pytest.fixture(scope="module", autouse=True)
def _without_servers() -> Iterator[None]:
    """Replace Kafka and the topic; `Channel` itself is the real one."""
    topic = type("Topic", (), {"name": "orders", "id": None, "look_again": lambda *_, **__: None})
    topic.settings = lambda *_, **__: {}  # type: ignore[attr-defined]
    nothing = dict.fromkeys(("__init__", "check_same"), lambda *_, **__: None)
    ends = type("Ends", (), {**nothing, "topic": topic()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channels, "create_client", lambda *_: Kafka())
        patch.setattr(channels, "TopicEnds", ends)
        patch.setattr(channels, "DeliveryTracker", Tracker)
        yield


@given(
    names=st.lists(st.sampled_from(CALLS) | st.sampled_from(SELDOM), max_size=60),
    on_failure=st.sampled_from(["raise", "hold"]),
    is_transactional=st.booleans(),
)
def test_no_call_and_no_fault_leaves_the_table_of_moves(
    names: list[str], on_failure: OnFailure, *, is_transactional: bool
) -> None:
    """And once servers answer again, a producer without a fault can begin, or has begun."""
    walk = Walk(on_failure, is_transactional=is_transactional)
    walk.step("start")
    for name in names:
        walk.step(name)
    walk.kafka.faults.clear()
    walk.client.is_away = False
    for name in ("forgive", "commit", "abort", "begin"):
        walk.step(name)
    expected = ProducerState.OPEN if is_transactional else ProducerState.CLEAR
    ended = walk.channel.fault is not None

    reached = walk.tracker.phase
    walk.step("close")

    made = {(before, after) for before, after in walk.tracker.moves if before is not after}
    assert made - table() == set()
    assert ended or reached is expected


def test_the_table_leads_to_each_phase_and_out_of_all_but_the_last() -> None:
    """So none is forgotten."""
    assert {after for _, after in table()} == set(ProducerState) - {ProducerState.BEGINNING}
    assert {before for before, _ in table() - {(ProducerState.CLOSED,) * 2}} == set(
        ProducerState
    ) - {ProducerState.CLOSED}
