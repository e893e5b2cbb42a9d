"""What is judged of the Spark that runs here, its connector and Java, and of a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from noted_time_cli.doctor.verdict import Finding, judged

OLDEST_JAVA = 17
FETCH = "noted-time spark-jars fetches them, and prints the value of spark.jars"
READ = "read with read_noted_kafka, read_noted_log or with_noted_watermark: page 'Spark'"
ANEW = "begin with a new checkpoint; start_at= leaves out what is written already"
Release = tuple[int, int]


def spark_release(running: str, release: Release, oldest: Release, whole: Release) -> list[Finding]:
    """Judge a PySpark: all works from the release `whole` on.

    >>> [each.fact for each in spark_release("4.0.1", (4, 0), (3, 5), (4, 2))]
    ['PySpark 4.0.1: only marks="topic", all else needs 4.2']
    """
    fact, needed = f"PySpark {running}", "{}.{}".format(*whole)
    part = f'{fact}: only marks="topic", all else needs {needed}' if release < whole else fact
    faults = [(release < oldest, f"{fact} is too old", f"install {needed} or newer")]
    return judged("spark", faults, part)


def connector(wanted: Sequence[str], found: Mapping[str, str], spark: str) -> list[Finding]:
    """Judge the jars with which Spark reads Kafka: those wanted, and where some are found, by name.

    >>> connector(["spark-sql-kafka-0-10_2.13-4.2.0.jar"], {}, "4.2.0")[0].outcome
    'not checked'
    """
    missing = [each for each in wanted if each not in found]
    name, release = wanted[0].rpartition("_")[0], "-{}.{}.".format(*spark.split("."))
    other = [each for each in found if each.startswith(name) and release not in each]
    if missing and not other:
        fact = f"{missing[0]} is not found here; spark.jars or spark.jars.packages may name it"
        return [Finding("connector", "not checked", fact, FETCH)]
    faults = [(missing, f"{', '.join(other)} does not fit Spark {spark}: {wanted[0]} does", FETCH)]
    return judged("connector", faults, f"{wanted[0]} in {found.get(wanted[0])}")


def java_release(program: str, printed: str) -> list[Finding]:
    """Judge a Java by what `java -version` prints.

    >>> java_release("java", 'openjdk version "17.0.9" 2023-10-17')[0].fact
    'java is Java 17'
    >>> java_release("java", 'java version "1.8.0_402"')[0].outcome
    'wrong'
    """
    found = re.search(r'version "(?:1\.)?(\d+)', printed)
    fact = f"{program} is Java {found[1]}" if found else f"{program} does not run: {printed:.200}"
    is_old = found is None or int(found[1]) < OLDEST_JAVA
    return judged("java", [(is_old, fact, f"set JAVA_HOME to a Java {OLDEST_JAVA} or newer")], fact)


def read_streams(offsets: Sequence[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield stream, domain and stream id of what the offsets of a query read; the rest is unknown.

    >>> log = {"noted_log": "flights", "marks": {"ship": {"stream_id": "9b"}}}
    >>> marks = {"noted_marks": "a", "streams": {"a": {"mark": {"stream_id": "5c"}}}}
    >>> list(read_streams([log, marks, {"t": {}}]))
    [('flights', 'ship', '9b'), ('a', '', '5c')]
    """
    for each in (offset for offset in offsets if isinstance(offset, dict)):
        if "noted_log" in each:
            for domain, mark in ((d, m) for d, m in each["marks"].items() if "/" not in d):
                yield each["noted_log"], domain, mark["stream_id"]
        if "noted_marks" in each:
            for name, one in each["streams"].items():
                yield name, "", one["mark"]["stream_id"]
        for topic in each:
            if topic.endswith(".noted"):
                yield topic, "", ""


def checkpoint(
    place: str,
    found: Sequence[tuple[str, str, str]],
    ids: Mapping[str, str | None],
    wanted: Collection[str] = (),
) -> Iterator[Finding]:
    """Judge what a checkpoint reads by the ids of the streams, `None` for one that is not there.

    One of the streams, or its topic, is among the `wanted` names, if there are any.
    """
    if not found:
        fact = f"{place} is of a query that reads no marks of noted-time"
        yield Finding("checkpoint", "wrong", fact, READ)
    names = sorted({name.removesuffix(".noted") for name, _, _ in found})
    if names and wanted and not set(names).intersection(wanted):
        fact = f"{place} is of a query that reads {' and '.join(names)}, not {next(iter(wanted))}"
        own = f"noted-time doctor {names[0]} --checkpoint {place}"
        yield Finding("checkpoint", "wrong", fact, f"name another, or its own stream: {own}")
        return
    for stream, domain, own in found:
        fact = f"{place} is of {stream}{domain and f', domain {domain}'}"
        if own and stream not in ids:
            unknown = f"{fact}, id {own}: no controller tells whether the stream still has that"
            yield Finding("checkpoint", "not checked", unknown)
            continue
        now = ids.get(stream, own)
        is_other, same = own not in ("", now), ", with the same id" if own else ", no mark yet"
        other = f"{fact}, id {own}; that stream {f'has the id {now} now' if now else 'is gone'}"
        yield from judged("checkpoint", [(is_other, other, ANEW)], f"{fact}{same}")
