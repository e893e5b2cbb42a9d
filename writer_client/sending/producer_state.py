"""The transactions of a producer as a table, without threads and without Kafka.

Each cell has the next state and the action on the transaction's notes. With `·` nothing changes:

event      CLEAR     OPEN            COMMITTING       UNRESOLVED    UNABORTED     ABORTED
produce    refused   ·               refused          refused       refused       refused
begin      OPEN cut  refused         refused          OPEN cut      OPEN cut      OPEN cut
offsets    refused   ·               refused          refused       refused       refused
commit     refused   COMMITTING      ·                ·             refused       refused
committed  ·         ·               CLEAR send       CLEAR         ·             ·
doubted    ·         ·               UNRESOLVED hold  ·             ·             ·
abort      ·         ·               refused          refused       ·             ·
aborted    ·         ABORTED drop    ABORTED drop     ABORTED drop  ABORTED       ·
dropped    ·         UNABORTED drop  UNABORTED drop   ·             ·             ·
forgiven   ·         ·               ·                ·             ·             CLEAR
leave      ·         refused         refused          refused       ·             ·

`produce`, `begin`, `offsets`, `commit`, `abort` and `leave` are calls, the others are outcomes. The
log has confirmed no outcome in UNRESOLVED, and no abort in UNABORTED; it begins no transaction
there. In ABORTED, the aborted events may still be produced again.

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
Action = Literal["cut", "send", "hold", "drop"]


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

Move = tuple[ProducerState, Action | None]


def build_table() -> Mapping[Event, Mapping[ProducerState, Move | str]]:
    clear, opened, committing, unresolved, unaborted, aborted = ProducerState
    not_open = (clear, committing, unresolved, unaborted, aborted)
    none_open = "no transaction is open: begin one first"
    nested = "a transaction is open already: they do not nest"
    in_doubt = (
        "it is unknown whether the transaction was committed: call `commit_transaction` again"
    )
    not_ended = "it is unknown whether the last transaction was committed: end it first"
    still_open = "a transaction is open: commit or abort it first"
    outside = "a producer with a transactional.id produces inside `transaction()`"
    return {
        "produce": dict.fromkeys(not_open, outside),
        "begin": {
            **dict.fromkeys((clear, unresolved, unaborted, aborted), (opened, "cut")),
            **dict.fromkeys((opened, committing), nested),
        },
        "offsets": dict.fromkeys(not_open, none_open),
        "commit": {
            opened: (committing, None),
            **dict.fromkeys((clear, unaborted, aborted), none_open),
        },
        "committed": {committing: (clear, "send"), unresolved: (clear, None)},
        "doubted": {committing: (unresolved, "hold")},
        "abort": dict.fromkeys((committing, unresolved), in_doubt),
        "aborted": {
            **dict.fromkeys((opened, committing, unresolved), (aborted, "drop")),
            unaborted: (aborted, None),
        },
        "dropped": dict.fromkeys((opened, committing), (unaborted, "drop")),
        "forgiven": {aborted: (clear, None)},
        "leave": {**dict.fromkeys((opened, committing), still_open), unresolved: not_ended},
    }


STATE_TABLE = build_table()


def advance(state: ProducerState, event: Event) -> Move:
    """Return the next state and the action, or raise `Rejected`.

    >>> advance(ProducerState.COMMITTING, "committed")
    (<ProducerState.CLEAR: 1>, 'send')
    """
    move = STATE_TABLE[event].get(state, (state, None))
    if isinstance(move, str):
        raise Rejected(move)
    return move
