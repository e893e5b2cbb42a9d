"""Rules for a checkpoint of Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from noted_time.installation import name_program
from noted_time_cli.doctor.verdict import Finding, judge

READ_REMEDY = "read with read_noted_kafka, read_noted_log or with_noted_watermark: page 'Spark'"
NEW_CHECKPOINT_REMEDY = "begin with a new checkpoint; start_at= skips rows that are written already"


def find_streams(offsets: Sequence[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield stream, domain and stream id of each noted-time source in a query's offsets.

    Other sources are skipped.

    >>> read = {"mark": {"stream_id": "9b"}, "facts": {"domain": "ship"}}
    >>> list(find_streams([{"noted_streams": {"flights": read}}, {"t": {}}, {"t.noted": {}}]))
    [('flights', 'ship', '9b'), ('t.noted', '', '')]
    """
    for each in (offset for offset in offsets if isinstance(offset, dict)):
        for name, read in each.get("noted_streams", {}).items():
            domain = read.get("facts", {}).get("domain") or ""
            yield name, domain, read.get("mark", {}).get("stream_id", "")
        for topic in each:
            if topic.endswith(".noted"):
                yield topic, "", ""


def judge_checkpoint(
    place: str,
    found: Sequence[tuple[str, str, str]],
    ids: Mapping[str, str | None],
    wanted: Collection[str] = (),
) -> Iterator[Finding]:
    """Judge whether the sources in a checkpoint still have the same stream ids.

    `ids` has `None` for a stream that does not exist. `wanted` names, if any, must be of a source.
    """
    if not found:
        fact = f"{place} is of a query that reads no marks of noted-time"
        yield Finding("checkpoint", "wrong", fact, READ_REMEDY)
    names = sorted({name.removesuffix(".noted") for name, _, _ in found})
    if names and wanted and not set(names).intersection(wanted):
        fact = f"{place} is of a query that reads {' and '.join(names)}, not {next(iter(wanted))}"
        own = f"{name_program()} doctor {names[0]} --checkpoint {place}"
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
        present = f"has the id {now} now" if now else "no longer exists"
        other = f"{fact}, id {own}; that stream {present}"
        yield from judge("checkpoint", [(is_other, other, NEW_CHECKPOINT_REMEDY)], f"{fact}{same}")
