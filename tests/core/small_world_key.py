"""A key of a small world, the same for worlds that differ in names and numbers only.

The key has the rows in the store, and what the writers know. Names are replaced in each order, of
which the least key counts. Offsets and times are replaced by their order, and moments by their age.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from operator import attrgetter
from typing import Any

import msgspec

from controller.aggregation.retention import RECORDS_KEPT_MS
from controller.store.records import (
    AppendedMark,
    LateRecord,
    LedgerEntry,
    Record,
    StoredMember,
    StoredMembership,
    StreamRecord,
)
from tests.core.small_world import ANY_TIME, RETENTION_MS, TIMEOUT_MS, Author, SmallWorld
from tools.trials.memory_store import MemoryStore

NUMBER_PATTERN = re.compile(rb"(?<![-\d])\d{4,}|\"10[123]\"")
"""An offset of four digits, a time, a moment of ten digits or more, or a segment as a key."""

SET_PATTERN = re.compile(
    rb"\{\"[A-C]\":[^{},]*(?:,\"[A-C]\":[^{},]*)+\}|\[\"[A-C]\"(?:,\"[A-C]\")+\]"
)
"""A position, or a list of writers. Their order means nothing."""

AGES_MS = (0, RETENTION_MS, TIMEOUT_MS, RECORDS_KEPT_MS)

ENCODER = msgspec.json.Encoder()


def find_key(world: SmallWorld) -> bytes:
    text = ENCODER.encode_lines([world.kept.now, *_list_facts(world)])
    names = _name_numbers(world, {*NUMBER_PATTERN.findall(text)})

    def find_name(match: re.Match[bytes]) -> bytes:
        return names[match.group()]

    renamed_text = NUMBER_PATTERN.sub(find_name, text)
    writers = b"".join(writer.name.encode() for writer in world.list_active())
    return min(_rename(renamed_text, writers, order) for order in permutations(writers))


def _list_facts(world: SmallWorld) -> Iterator[object]:
    store = world.kept.store
    assert isinstance(store, MemoryStore)
    for kind, list_facts in RECORD_FACTS.items():
        for records in store.tables[kind].values():
            for record in records.values():
                yield list_facts(record)
    for author in world.list_active():
        yield (
            *(author.name, {author.segment: author.end}, author.state, author.domains),
            *(author.promised, sorted(author.unbound), author.is_removed),
            *([*_list_late_notes(world, author)], [*_list_rows(world, author)]),
        )


def _list_late_notes(world: SmallWorld, author: Author) -> Iterator[object]:
    """Yield the notes above the lower, which a restart loses."""
    for note in author.notes:
        history = world.kept.stream.histories[note.domain]
        if history.last_lower is None or note.time > history.last_lower:
            yield note.domain, note.time, {author.segment: note.end}


def _list_rows(world: SmallWorld, author: Author) -> Iterator[object]:
    """Yield the rows that a mark lacks, or that the first one may lack."""
    for row in author.rows:
        least_times: dict[str, int] = {}
        for domain, history in world.kept.stream.histories.items():
            cut = history.first.cut.offsets if history.first else {}
            if cut.get(author.segment, ANY_TIME) < row.end:
                least_times[domain] = row.find_least_time(domain)
        if least_times:
            yield {author.segment: row.end}, least_times


def _list_member_facts(record: StoredMember) -> object:
    member = record.member
    return (
        *(member.writer, member.state, member.excluded, member.terms.domains),
        *(member.position, member.times, member.noted_served_ms, member.changed_served_ms),
        *(member.heard_at, member.expected_at, member.joined_at),
    )


def _list_stream_facts(record: StreamRecord) -> object:
    return (
        *(record.settings.domains, record.settings.expected_writers, record.seal is not None),
        *(record.declared_served_ms, record.first_lowers, record.forgotten_lowers),
        *(record.ledger_from_time, record.late_from_time, record.late_seen_from_served_ms),
    )


RECORD_FACTS: Mapping[type[Record], Callable[[Any], object]] = {
    StreamRecord: _list_stream_facts,
    StoredMember: _list_member_facts,
    StoredMembership: attrgetter("domain", "writer", "membership"),
    AppendedMark: attrgetter("domain", "mark.lower", "mark.cut.offsets"),
    LedgerEntry: attrgetter("domain", "answer"),
    LateRecord: attrgetter("domain", "report"),
}
"""The facts of each kind of record on which answers depend."""


def _name_numbers(world: SmallWorld, texts: set[bytes]) -> Mapping[bytes, bytes]:
    """Return the name of each number. Capital letters in it stand for writers.

    The order of moments matters once a domain was added.
    """
    names: dict[bytes, bytes] = {}
    numbers: defaultdict[bytes, list[int]] = defaultdict(list)
    for text in texts:
        if text.startswith(b'"'):
            names[text] = b'"%c"' % _find_letter(text[3:4])
        elif len(text) == len("1000"):
            numbers[b"%c" % _find_letter(text[:1])].append(int(text))
        elif len(text) < len("1000000000"):
            numbers[b"t"].append(int(text))
        else:
            age_ms = world.kept.now - int(text)
            names[text] = b"m%d" % sum(age_ms > limit for limit in AGES_MS)
            if world.kept.stream.record.declared_served_ms:
                numbers[b"m"].append(int(text))
    for kind, numbers_of_kind in numbers.items():
        for rank, number in enumerate(sorted(numbers_of_kind)):
            text = b"%d" % number
            names[text] = b"%s.%s%d" % (names.get(text, b""), kind, rank)
    return names


def _find_letter(digit: bytes) -> int:
    return ord("A") - 1 + int(digit)


def _rename(text: bytes, writers: bytes, order: tuple[int, ...]) -> bytes:
    renamed_text = text.translate(bytes.maketrans(writers, bytes(order)))
    return b"\n".join(sorted(SET_PATTERN.sub(_sort_set, renamed_text).split(b"\n")))


def _sort_set(match: re.Match[bytes]) -> bytes:
    text = match.group()
    return text[:1] + b",".join(sorted(text[1:-1].split(b","))) + text[-1:]
