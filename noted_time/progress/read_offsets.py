"""How far a consumer has read a log, by its offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from noted_time.values import MAX_INT64, Id, Int64, Name, Position, Rejected


class ReadOffsets(Struct, frozen=True):
    """How far a dataset has read a stream, and who read it (`by`).

    - `position`: exclusive offsets by segment; other segments were not read. If it is null, the
      dataset has the marks up to the first one with a lower of at least `at_most`.
    - `log`: the id of the log of these offsets.
    - `at_most`: nothing is known from this time on, which is of the time domain `domain`.
    - `remarks`: sentences about limits.
    """

    position: Position | None = None
    by: str = ""
    log: Id | None = None
    at_most: Int64 | None = None
    remarks: tuple[str, ...] = ()
    domain: Name | None = None


def parse_offsets(text: str, *, inclusive: bool = False) -> dict[int, int]:
    """Parse the exclusive offsets in a JSON object by partition, or raise `Rejected`.

    Set `inclusive` for the offsets of the last records read.

    >>> parse_offsets('{"0": 25, "1": 12}'), parse_offsets('{"0": 24}', inclusive=True)
    ({0: 25, 1: 12}, {0: 25})
    """
    remedy = 'write {"0": 25, "1": 12}, an offset for each partition'
    try:
        offsets = json.loads(text, object_pairs_hook=_check_unique)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"the offsets are not JSON ({error}): {remedy}") from error
    if not isinstance(offsets, dict):
        raise Rejected(
            f"the offsets are {text.strip()!r:.80}, which is not a JSON object: {remedy}"
        )
    rows_after_offset = 1 if inclusive else 0
    return {
        _parse_partition(key): _parse_offset(key, value) + rows_after_offset
        for key, value in offsets.items()
    }


def check_known(position: Mapping[int, int], known_partitions: Iterable[int], log: str) -> None:
    partitions = sorted(known_partitions)
    for partition in sorted(position.keys() - partitions):
        if position[partition]:
            raise Rejected(
                f"partition {partition} is unknown: {log} has {partitions[:10]}; correct the "
                "number, or leave it out"
            )


def find_lookup_starts(
    committed_offsets: Mapping[int, int],
    begins: Mapping[int, int],
    ends: Mapping[int, int],
    cut: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """Return the offsets where a search for more read records below the `cut` must start.

    Consumers commit the offset after their last record, but markers and aborted records may follow.

    Raises `Rejected` for an offset below the log's earlier begin, or beyond its end.

    >>> find_lookup_starts({0: 5, 1: 7}, {0: 0, 1: 0, 2: 3}, {0: 9, 1: 7, 2: 4}, {0: 8, 1: 7, 2: 4})
    {0: 5}
    """
    for partition, offset in sorted(committed_offsets.items()):
        begin = begins.get(partition, 0)
        end = ends.get(partition)
        if offset < begin:
            raise Rejected(
                f"partition {partition}: records {offset} to {begin - 1} were deleted before this "
                "group read them: its output lacks them; load them from elsewhere, then reset "
                "its offsets"
            )
        if end is not None and offset > end:
            raise Rejected(
                f"partition {partition} ends at {end}, but offset {offset} is beyond that: the "
                "topic was created again, or the offsets belong to another topic; reset them"
            )
    starts: dict[int, int] = {}
    for partition, end in ends.items():
        offset = committed_offsets.get(partition, 0)
        needed_offset = end if cut is None else min(end, cut.get(partition, 0))
        if begins.get(partition, 0) <= offset < needed_offset:
            starts[partition] = offset
    return starts


def _check_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise Rejected("the offsets name a partition twice: remove one of both")
    return unique


def _parse_partition(key: str) -> int:
    if not (key.isascii() and key.isdigit() and str(int(key[:20])) == key):
        raise Rejected(f"partition {key!r:.40} is not a number: write 0, 1, 2 …")
    return int(key)


def _parse_offset(key: str, value: object) -> int:
    if type(value) is not int:
        raise Rejected(f"the offset of partition {key} is {value!r:.40}: it has to be an integer")
    if not 0 <= value < MAX_INT64:
        raise Rejected(
            f"the offset of partition {key} is {value}: it has to be from 0 to {MAX_INT64 - 1}; "
            "leave out a partition that was not read"
        )
    return value
