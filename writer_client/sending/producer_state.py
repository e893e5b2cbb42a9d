"""What a producer does, and by which moves it comes to do something else."""

from __future__ import annotations

from enum import Enum, auto


class ProducerState(Enum):
    """What a producer does, and by which moves it comes to do something else.

    | from | to | when |
    |---|---|---|
    | BEGINNING | CLEAR | the writer has joined, and what waited for that is done |
    | CLEAR, ABORTED | OPEN | a transaction begins |
    | OPEN | COMMITTING | its events are delivered, and the log is asked to commit it |
    | OPEN, COMMITTING | CLEAR | it is committed |
    | OPEN, COMMITTING | UNRESOLVED | it is not known whether it is committed |
    | OPEN, COMMITTING, UNRESOLVED | ABORTED | it is aborted, by the program or by the log |
    | OPEN | UNABORTED | it is dropped, and the log has yet to abort it |
    | UNABORTED | ABORTED | the log has aborted it |
    | UNRESOLVED | CLEAR, OPEN | it turned out to be committed; at once the next one begins |
    | ABORTED | CLEAR | its events were produced again, or are given up |
    | each | CLOSED | nothing more is sent, and nothing leads out of it |

    What each phase may have beside itself is no phase: events that failed, which are counted
    (`DeliveryTracker.failed`), an error that every call raises, and whether the writer rests.
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
"""The phases in which no transaction withholds what is noted."""
