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
    for offset in (offset for offset in offsets if isinstance(offset, dict)):
        for name, source in offset.get("noted_streams", {}).items():
            domain = source.get("facts", {}).get("domain") or ""
            yield name, domain, source.get("mark", {}).get("stream_id", "")
        for topic in offset:
            if topic.endswith(".noted"):
                yield topic, "", ""


def judge_checkpoint(
    place: str,
    sources: Sequence[tuple[str, str, str]],
    ids: Mapping[str, str | None],
    required_names: Collection[str] = (),
) -> Iterator[Finding]:
    """Judge whether the sources in a checkpoint still have the same stream ids.

    `ids` has `None` for a stream that does not exist. `required_names` names, if any, must
    be of a source.
    """
    if not sources:
        fact = f"{place} is of a query that reads no marks of noted-time"
        yield Finding("checkpoint", "wrong", fact, READ_REMEDY)
    names = sorted({name.removesuffix(".noted") for name, _, _ in sources})
    if names and required_names and not set(names).intersection(required_names):
        fact = (
            f"{place} is of a query that reads {' and '.join(names)}, "
            f"not {next(iter(required_names))}"
        )
        stream_id = f"{name_program()} doctor {names[0]} --checkpoint {place}"
        yield Finding("checkpoint", "wrong", fact, f"name another, or its own stream: {stream_id}")
        return
    for stream, domain, stream_id in sources:
        fact = f"{place} is of {stream}{domain and f', domain {domain}'}"
        if stream_id and stream not in ids:
            unknown_id = (
                f"{fact}, id {stream_id}: no controller tells whether the stream still has that"
            )
            yield Finding("checkpoint", "not checked", unknown_id)
            continue
        present_id = ids.get(stream, stream_id)
        is_other, ending = (
            stream_id not in ("", present_id),
            ", with the same id" if stream_id else ", no mark yet",
        )
        present = f"has the id {present_id} now" if present_id else "no longer exists"
        fault = f"{fact}, id {stream_id}; that stream {present}"
        yield from judge(
            "checkpoint", [(is_other, fault, NEW_CHECKPOINT_REMEDY)], f"{fact}{ending}"
        )
