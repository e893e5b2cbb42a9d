"""Facts of observers in sentences for operators."""

from __future__ import annotations

from shlex import quote

from noted_time.values import IDLE_OPTION, NULL_OPTION, LogFact, format_time, pluralize


def describe_fact(fact: LogFact) -> tuple[str, str]:
    """Return a fact that an observer found in the log, and the remedy.

    >>> describe_fact(LogFact("moved_by", 3, 7, 1357034220000, by="d07"))[0]
    'segment 3 is ahead by the record at offset 7 (key d07), of 2013-01-01T09:57:00Z'
    """
    segment = f"segment {fact.segment}"
    time = format_time(fact.time)
    if fact.kind == "open_transaction":
        problem = f"{segment} has an open transaction, first seen {time}"
        hidden = f"its records from offset {fact.offset} on cannot be read yet"
        names = "kafka-transactions.sh names its producer"
        return f"{problem}: {hidden}", f"commit it, or wait for transaction.timeout.ms; {names}"
    if fact.kind == "unreadable":
        return _describe_unreadable(fact)
    if fact.kind == "passed":
        passed = f"no segment waits for the records that this option passes over: {fact.by}"
        return passed, "leave it out once their producer is corrected"
    if fact.kind == "foreign_file":
        problem = f"the log has {fact.by}, first seen {time}, which may have rows that are not read"
        return problem, f"remove it, or observe the log with --ignore {quote(fact.by or '*')}"
    key = f" (key {fact.by})" if fact.by else ""
    ahead = f"{segment} is ahead by the record at offset {fact.offset}{key}, of {time}"
    return ahead, "correct the clock of its producer, as records with the right time may be late"


def _describe_unreadable(fact: LogFact) -> tuple[str, str]:
    """Return the option that ends the wait, also for records that still come.

    >>> _describe_unreadable(LogFact("unreadable", 0, 17, 0, count=1))[1]
    'correct its producer, or restart the observer with --pass 0:17 to wait no longer'
    >>> _describe_unreadable(LogFact("unreadable", 0, 17, 0, NULL_OPTION, 2))[1]
    'let its producer write times, or restart the observer with --null pass, or with --pass 0'
    """
    option = f"--pass {fact.segment}" + (f":{fact.offset}" if fact.count == 1 else "")
    if fact.by == IDLE_OPTION:
        option = IDLE_OPTION
    records = f"{pluralize(fact.count or 1, 'record')} from offset {fact.offset} on"
    if fact.by == NULL_OPTION:
        problem = f"segment {fact.segment} waits for a record with a time"
        remedy = f"let its producer write times, or restart the observer with {NULL_OPTION}"
        return f"{problem}: the time of {records} is null", f"{remedy}, or with {option}"
    passed = f"the observer passed over {records}, unreadable or ahead of the clock"
    remedy = f"correct its producer, or restart the observer with {option} to wait no longer"
    return f"segment {fact.segment} waits for a readable record: {passed}", remedy
