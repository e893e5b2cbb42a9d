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

Move = tuple[ProducerState, NoteAction | None]


def build_table() -> Mapping[tuple[ProducerState, Event], Move | str]:
    clear, opened, committing, unresolved, unaborted, aborted = ProducerState
    not_open = (clear, committing, unresolved, unaborted, aborted)
    none_open = "no transaction is open: begin one first"
    in_doubt = (
        "it is unknown whether the transaction was committed: call `commit_transaction` again"
    )
    not_ended = "it is unknown whether the last transaction was committed: end it first"
    rows: tuple[tuple[Event, tuple[ProducerState, ...], Move | str], ...] = (
        ("produce", not_open, "a producer with a transactional.id produces inside `transaction()`"),
        ("begin", (clear, unresolved, unaborted, aborted), (opened, "cut")),
        ("begin", (opened, committing), "a transaction is open already: they do not nest"),
        ("offsets", not_open, none_open),
        ("commit", (opened,), (committing, None)),
        ("commit", (clear, unaborted, aborted), none_open),
        ("committed", (committing,), (clear, "send")),
        ("committed", (unresolved,), (clear, None)),
        ("doubted", (committing,), (unresolved, "keep")),
        ("abort", (committing, unresolved), in_doubt),
        ("aborted", (opened, committing, unresolved), (aborted, "drop")),
        ("aborted", (unaborted,), (aborted, None)),
        ("dropped", (opened, committing), (unaborted, "drop")),
        ("forgiven", (aborted,), (clear, None)),
        ("leave", (opened, committing), "a transaction is open: commit or abort it first"),
        ("leave", (unresolved,), not_ended),
    )
    return {(state, event): move for event, states, move in rows for state in states}


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
