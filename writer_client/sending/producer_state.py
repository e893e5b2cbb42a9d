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


CLEAR, OPEN, COMMITTING, UNRESOLVED, UNABORTED, ABORTED = ProducerState

IN_TRANSACTION = (OPEN, COMMITTING)
IN_DOUBT = (COMMITTING, UNRESOLVED)
BETWEEN_TRANSACTIONS = (CLEAR, UNABORTED, ABORTED)
NOT_OPEN = (CLEAR, COMMITTING, UNRESOLVED, UNABORTED, ABORTED)

Move = tuple[ProducerState, NoteAction | None]

OUTSIDE = "a producer with a transactional.id produces inside `transaction()`"
NONE_OPEN = "no transaction is open: begin one first"
NESTED = "a transaction is open already: they do not nest"
STILL_OPEN = "a transaction is open: commit or abort it first"
COMMIT_IN_DOUBT = (
    "it is unknown whether the transaction was committed: call `commit_transaction` again"
)
LAST_IN_DOUBT = "it is unknown whether the last transaction was committed: end it first"

TABLE_ROWS: tuple[tuple[Event, tuple[ProducerState, ...], Move | str], ...] = (
    ("produce", NOT_OPEN, OUTSIDE),
    ("begin", (CLEAR, UNRESOLVED, UNABORTED, ABORTED), (OPEN, "cut")),
    ("begin", (OPEN, COMMITTING), NESTED),
    ("offsets", NOT_OPEN, NONE_OPEN),
    ("commit", (OPEN,), (COMMITTING, None)),
    ("commit", (CLEAR, UNABORTED, ABORTED), NONE_OPEN),
    ("committed", (COMMITTING,), (CLEAR, "send")),
    ("committed", (UNRESOLVED,), (CLEAR, None)),
    ("doubted", (COMMITTING,), (UNRESOLVED, "keep")),
    ("abort", (COMMITTING, UNRESOLVED), COMMIT_IN_DOUBT),
    ("aborted", (OPEN, COMMITTING, UNRESOLVED), (ABORTED, "drop")),
    ("aborted", (UNABORTED,), (ABORTED, None)),
    ("dropped", (OPEN, COMMITTING), (UNABORTED, "drop")),
    ("forgiven", (ABORTED,), (CLEAR, None)),
    ("leave", (OPEN, COMMITTING), STILL_OPEN),
    ("leave", (UNRESOLVED,), LAST_IN_DOUBT),
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
