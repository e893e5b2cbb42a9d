"""The transactions of a producer as a table, without threads and without Kafka.

Each cell has the next state and the action on the transaction's notes. With `·` nothing changes:

event      CLEAR     OPEN            COMMITTING       UNRESOLVED    UNABORTED     ABORTED
=======================================================================================
produce    refused   ·               refused          refused       refused       refused
begin      OPEN cut  refused         refused          OPEN cut      OPEN cut      OPEN cut
offsets    refused   ·               refused          refused       refused       refused
commit     refused   COMMITTING      ·                ·             refused       refused
abort      ·         ·               refused          refused       ·             ·
leave      ·         refused         refused          refused       ·             ·
committed  ·         ·               CLEAR send       CLEAR         ·             ·
doubted    ·         ·               UNRESOLVED keep  ·             ·             ·
aborted    ·         ABORTED drop    ABORTED drop     ABORTED drop  ABORTED       ·
dropped    ·         UNABORTED drop  UNABORTED drop   ·             ·             ·
forgiven   ·         ·               ·                ·             ·             CLEAR

The actions: `cut` ends the epoch of earlier events, `send` sends the transaction's notes, `keep`
leaves its events to the next note, and `drop` takes its events and notes back.

The first six events are calls, the others outcomes. In UNRESOLVED, the log has not confirmed a
commit, and in UNABORTED no abort; it begins a transaction only after that. In ABORTED, the aborted
events may still be produced again.

Failed events and a writer that is idle or finished are not states, as they occur in several. A
producer without transactions stays CLEAR.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Literal

from noted_time.values import Rejected

Call = Literal["produce", "begin", "offsets", "commit", "abort", "leave"]
Event = Literal[Call, "committed", "doubted", "aborted", "dropped", "forgiven"]
NoteAction = Literal["cut", "send", "keep", "drop"]


class ProducerState(Enum):
    """The state of a producer's transaction."""

    CLEAR = auto()
    OPEN = auto()
    COMMITTING = auto()
    UNRESOLVED = auto()
    UNABORTED = auto()
    ABORTED = auto()


IN_TRANSACTION = (ProducerState.OPEN, ProducerState.COMMITTING)
IN_DOUBT = (ProducerState.COMMITTING, ProducerState.UNRESOLVED)
BETWEEN_TRANSACTIONS = (ProducerState.CLEAR, ProducerState.UNABORTED, ProducerState.ABORTED)
NOT_OPEN = (
    ProducerState.CLEAR,
    ProducerState.COMMITTING,
    ProducerState.UNRESOLVED,
    ProducerState.UNABORTED,
    ProducerState.ABORTED,
)

Move = tuple[ProducerState, NoteAction | None]

OUTSIDE_TRANSACTION = "a producer with a transactional.id produces inside `transaction()`"
NONE_OPEN = "no transaction is open: begin one first"
NESTED_TRANSACTION = "a transaction is open already: they do not nest"
STILL_OPEN = "a transaction is open: commit or abort it first"
COMMIT_IN_DOUBT = (
    "it is unknown whether the transaction was committed: call `commit_transaction` again"
)
LAST_IN_DOUBT = "it is unknown whether the last transaction was committed: end it first"

TABLE_ROWS: tuple[tuple[Event, tuple[ProducerState, ...], Move | str], ...] = (
    ("produce", NOT_OPEN, OUTSIDE_TRANSACTION),
    (
        "begin",
        (
            ProducerState.CLEAR,
            ProducerState.UNRESOLVED,
            ProducerState.UNABORTED,
            ProducerState.ABORTED,
        ),
        (ProducerState.OPEN, "cut"),
    ),
    ("begin", (ProducerState.OPEN, ProducerState.COMMITTING), NESTED_TRANSACTION),
    ("offsets", NOT_OPEN, NONE_OPEN),
    ("commit", (ProducerState.OPEN,), (ProducerState.COMMITTING, None)),
    ("commit", (ProducerState.CLEAR, ProducerState.UNABORTED, ProducerState.ABORTED), NONE_OPEN),
    ("committed", (ProducerState.COMMITTING,), (ProducerState.CLEAR, "send")),
    ("committed", (ProducerState.UNRESOLVED,), (ProducerState.CLEAR, None)),
    ("doubted", (ProducerState.COMMITTING,), (ProducerState.UNRESOLVED, "keep")),
    ("abort", (ProducerState.COMMITTING, ProducerState.UNRESOLVED), COMMIT_IN_DOUBT),
    (
        "aborted",
        (ProducerState.OPEN, ProducerState.COMMITTING, ProducerState.UNRESOLVED),
        (ProducerState.ABORTED, "drop"),
    ),
    ("aborted", (ProducerState.UNABORTED,), (ProducerState.ABORTED, None)),
    ("dropped", (ProducerState.OPEN, ProducerState.COMMITTING), (ProducerState.UNABORTED, "drop")),
    ("forgiven", (ProducerState.ABORTED,), (ProducerState.CLEAR, None)),
    ("leave", (ProducerState.OPEN, ProducerState.COMMITTING), STILL_OPEN),
    ("leave", (ProducerState.UNRESOLVED,), LAST_IN_DOUBT),
)
"""The move of an event in some states, or why it is refused there. It changes no other state."""


def build_table() -> Mapping[tuple[ProducerState, Event], Move | str]:
    table: dict[tuple[ProducerState, Event], Move | str] = {}
    for event, states, move in TABLE_ROWS:
        for state in states:
            table[state, event] = move
    return table


STATE_TABLE = build_table()


def advance(state: ProducerState, event: Event) -> Move:
    """Return the next state and the action, or raise `Rejected`.

    >>> advance(ProducerState.COMMITTING, "committed")
    (<ProducerState.CLEAR: 1>, 'send')
    """
    move = STATE_TABLE.get((state, event), (state, None))
    if isinstance(move, str):
        raise Rejected(move)
    return move
