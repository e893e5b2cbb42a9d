"""The table of a producer's states, and random calls and faults."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from noted_time import NotedTimeError, Rejected, StreamCut, Unreachable
from tests.writer_client.test_delivery import Message, Noting
from writer_client.at_exit import OpenClient, open_clients
from writer_client.kafka import channel as channels
from writer_client.kafka.channel import Channel
from writer_client.sending import producer_state
from writer_client.sending.delivery import OnFailure
from writer_client.sending.producer_state import Event, ProducerState, advance

FAULTS = {
    "slow": KafkaError(KafkaError.REQUEST_TIMED_OUT, "slow", retriable=True),
    "aborts": KafkaError(KafkaError.INVALID_TXN_STATE, "aborts", txn_requires_abort=True),
    "refuses": KafkaError(KafkaError.INVALID_TXN_STATE, "refuses"),
    "is fenced": KafkaError(KafkaError.PRODUCER_FENCED, "is fenced", fatal=True),
}
CALLS = ("produce", "produce", "fail", "note", "begin", "begin", "commit", "commit", "abort")
SELDOM = ("deliver", "rest", "forgive", "poll", "controller", *FAULTS)
EVENTS = get_args(Event)
OVER = -1.0
"""A timeout that is over: one attempt is made."""


def find_cell(state: ProducerState, event: Event) -> str:
    """Return a cell of the table in the module's docstring."""
    try:
        after, action = advance(state, event)
    except Rejected:
        return "refused"
    return "·" if (after, action) == (state, None) else f"{after.name} {action or ''}".strip()


def test_table_is_as_its_module_draws_it() -> None:
    lines = (producer_state.__doc__ or "").splitlines()
    drawn_rows = [re.split("  +", line) for line in lines if line.count("  ") >= len(ProducerState)]

    states = list(ProducerState)
    rows = [["event", *(state.name for state in states)]]
    for event in EVENTS:
        rows.append([event, *(find_cell(state, event) for state in states)])
    assert drawn_rows == rows


def test_every_producer_state_leads_to_a_transaction() -> None:
    """So no outcome blocks a producer."""
    next_states = {state: find_next_states(state) for state in ProducerState}
    for state in ProducerState:
        reached_states = {state}
        for _ in ProducerState:
            for reached_state in tuple(reached_states):
                reached_states |= next_states[reached_state]
        assert reached_states == set(ProducerState)


def find_next_states(state: ProducerState) -> set[ProducerState]:
    events = [event for event in EVENTS if find_cell(state, event) != "refused"]
    return {advance(state, event)[0] for event in events}


class Kafka:
    """A producer of confluent-kafka whose calls fail once after each fault."""

    def __init__(self) -> None:
        self.faults: deque[KafkaError] = deque()
        self.queued: list[Callable[[], object]] = []

    def __len__(self) -> int:
        return len(self.queued)

    def poll(self, _timeout: float = 0) -> int:
        """Report all deliveries."""
        reports = self.queued
        self.queued = []
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

    def __init__(self) -> None:
        super().__init__()
        self._questions = SimpleNamespace(
            find_cut_without_log=lambda: StreamCut({}),  # no marks are known
            explain=lambda _asked: SimpleNamespace(reader=None),  # nor a reader
        )
        open_clients[self] = OpenClient(lambda _timeout_s: None)

    def flush(self, _timeout: float = 0) -> None:
        if self.is_away:
            self.is_away = False
            raise Unreachable("no controller answers")


class Walk:
    """Random calls in any order."""

    def __init__(self, on_failure: OnFailure) -> None:
        client: Any = Client
        config = {"transactional.id": "orders"}
        self.channel = Channel(config, "orders", client, domains=None, on_failure=on_failure)
        self.kafka: Any = self.channel.kafka
        self.client: Any = self.channel.client
        self.tracker: Any = self.channel.tracker
        self.time = self.offset = 0
        self.calls: dict[str, Callable[[], object]] = {
            **{method.__name__: method for method in (self.produce, self.fail, self.note)},
            "begin": self.channel.begin_transaction,
            "commit": partial(self.channel.commit_transaction, OVER),
            "abort": partial(self.channel.abort_transaction, OVER),
            "deliver": partial(self.channel.deliver, 0.0),
            "rest": partial(self.channel.rest, 0.0, self.client.idle),
            "forgive": self.tracker.forgive,
            "poll": partial(self.channel.poll, 0),
            "controller": self.stop_controller,
        }
        self.channel.begin()

    def step(self, name: str) -> None:
        """Call, or let the next call of Kafka or the controller fail."""
        if name in FAULTS:
            self.kafka.faults.append(FAULTS[name])
            return
        with suppress(NotedTimeError):
            self.calls[name]()

    def produce(self) -> None:
        """Produce an event, as the producer does."""
        self.channel.check_event()
        self.channel.join_again()
        epoch = self.tracker.produced(self.time)
        offset = self.offset
        self.offset += 1
        self.kafka.queued.append(partial(epoch.on_delivery, None, Message(0, offset)))

    def fail(self) -> None:
        """Produce an event that is not delivered."""
        self.produce()
        epoch = self.tracker._open_epoch
        self.kafka.queued[-1] = partial(epoch.on_delivery, "too large", Message(0, 0))

    def stop_controller(self) -> None:
        """Let the next flush fail."""
        self.client.is_away = True

    def note(self) -> None:
        """Note a time."""
        self.channel.check()
        self.time += 1
        self.tracker.note(self.time)


class Topic:
    """A topic without records and settings."""

    name = "orders"
    id = None

    def look_again(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(ends={})

    def settings(self, *_: object, **__: object) -> dict[str, str]:
        return {}


class Ends:
    """The ends of the topic."""

    topic = Topic()

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def check_same(self, *_: object, **__: object) -> None:
        pass


def create_kafka(*_: object) -> Kafka:
    return Kafka()


@pytest.fixture(scope="module", autouse=True)
def _without_servers() -> Iterator[None]:
    """Replace Kafka and the topic, but not `Channel`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channels, "create_client", create_kafka)
        patch.setattr(channels, "TopicEnds", Ends)
        yield


@given(
    names=st.lists(st.sampled_from(CALLS) | st.sampled_from(SELDOM), max_size=60),
    on_failure=st.sampled_from(["raise", "keep"]),
)
def test_producer_continues_once_servers_answer(names: list[str], on_failure: OnFailure) -> None:
    """Only a fault of the producer itself is final."""
    walk = Walk(on_failure)
    for name in names:
        walk.step(name)
    walk.kafka.faults.clear()
    walk.client.is_away = False
    for name in ("forgive", "commit", "abort", "begin"):
        walk.step(name)

    assert walk.channel.fault is not None or walk.tracker.phase is ProducerState.OPEN
