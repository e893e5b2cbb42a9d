"""Facts of observers in sentences for operators."""

from __future__ import annotations

from shlex import quote
from typing import NamedTuple

from noted_time.values import IDLE_OPTION, NULL_OPTION, LogFact, format_time, pluralize


class FactWords(NamedTuple):
    """A fact of the log in words, and what to do."""

    fact: str
    remedy: str


def describe_fact(fact: LogFact) -> FactWords:
    """Return a fact that an observer found in the log, and the remedy.

    >>> describe_fact(LogFact("moved_by", 3, 7, 1357034220000, by="d07")).fact
    'segment 3 is ahead by the record at offset 7 (key d07), of 2013-01-01T09:57:00Z'
    """
    segment = f"segment {fact.segment}"
    time = format_time(fact.time)
    if fact.kind == "open_transaction":
        return FactWords(
            f"{segment} has an open transaction, first seen {time}: its records from offset "
            f"{fact.offset} on cannot be read yet",
            "commit it, or wait for transaction.timeout.ms; kafka-transactions.sh names its "
            "producer",
        )
    if fact.kind == "unreadable":
        return _describe_unreadable(fact)
    if fact.kind == "passed":
        return FactWords(
            f"no segment waits for the records that this option passes over: {fact.by}",
            "leave it out once their producer is corrected",
        )
    if fact.kind == "foreign_file":
        return FactWords(
            f"the log has {fact.by}, first seen {time}, which may have rows that are not read",
            f"remove it, or observe the log with --ignore {quote(fact.by or '*')}",
        )
    key = f" (key {fact.by})" if fact.by else ""
    return FactWords(
        f"{segment} is ahead by the record at offset {fact.offset}{key}, of {time}",
        "correct the clock of its producer, as records with the right time may be late",
    )


def _describe_unreadable(fact: LogFact) -> FactWords:
    """Return the option that ends the wait, also for records that still come.

    >>> _describe_unreadable(LogFact("unreadable", 0, 17, 0, count=1)).remedy
    'correct its producer, or restart the observer with --pass 0:17 to wait no longer'
    >>> _describe_unreadable(LogFact("unreadable", 0, 17, 0, NULL_OPTION, 2)).remedy
    'let its producer write times, or restart the observer with --null pass, or with --pass 0'
    """
    option = f"--pass {fact.segment}"
    if fact.count == 1:
        option = f"--pass {fact.segment}:{fact.offset}"
    if fact.by == IDLE_OPTION:
        option = IDLE_OPTION
    records = f"{pluralize(fact.count or 1, 'record')} from offset {fact.offset} on"
    if fact.by == NULL_OPTION:
        return FactWords(
            f"segment {fact.segment} waits for a record with a time: the time of {records} is null",
            f"let its producer write times, or restart the observer with {NULL_OPTION}, or with "
            f"{option}",
        )
    return FactWords(
        f"segment {fact.segment} waits for a readable record: the observer passed over {records}, "
        "unreadable or ahead of the clock",
        f"correct its producer, or restart the observer with {option} to wait no longer",
    )
