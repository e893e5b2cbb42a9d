"""The states of a producer."""

from __future__ import annotations

from enum import Enum, auto


class ProducerState(Enum):
    """The state of a producer, with its transitions.

    | from | to | when |
    |---|---|---|
    | BEGINNING | CLEAR | the writer has joined, and the calls that waited for this are done |
    | CLEAR, ABORTED | OPEN | a transaction begins |
    | OPEN | COMMITTING | its events are delivered, and the log is asked to commit it |
    | OPEN, COMMITTING | CLEAR | it is committed |
    | OPEN, COMMITTING | UNRESOLVED | it is not known whether it is committed |
    | OPEN, COMMITTING, UNRESOLVED | ABORTED | it is aborted, by the program or by the log |
    | OPEN | UNABORTED | it is dropped, but the log has not aborted it yet |
    | UNABORTED | ABORTED | the log has aborted it |
    | UNRESOLVED | CLEAR, OPEN | it is found to be committed; with OPEN, the next one begins |
    | ABORTED | CLEAR | its events were produced again, or are given up |
    | each | CLOSED | the producer is closed; this state is final |

    Failed events, a fault and an idle writer are not states, because they occur in several of them.
    """

    BEGINNING = auto()
    CLEAR = auto()
    OPEN = auto()
    COMMITTING = auto()
    UNRESOLVED = auto()
    UNABORTED = auto()
    ABORTED = auto()
    CLOSED = auto()


IN_TRANSACTION = (ProducerState.OPEN, ProducerState.COMMITTING)
BETWEEN_TRANSACTIONS = (
    ProducerState.BEGINNING,
    ProducerState.CLEAR,
    ProducerState.UNABORTED,
    ProducerState.ABORTED,
)
