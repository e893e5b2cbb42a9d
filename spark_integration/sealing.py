"""What a query does at the end of a sealed stream.

The lower of the last mark would leave the window open in which it lies, and nothing comes after it.
So once the final cut is read the watermark goes to the end of Spark's time, which closes them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from noted_time import Rejected
from noted_time.values import reaches
from spark_integration.offsets import Released
from spark_integration.watermark import LAST_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

OnSeal = Literal["close", "hold"]
"""`close` all windows at the end of a sealed stream, or `hold` at the lower of its last mark."""


def checked_on_seal(on_seal: str) -> OnSeal:
    """Return what to do at a seal; raises `Rejected` where it is neither."""
    for known in get_args(OnSeal):
        if on_seal == known:
            chosen: OnSeal = known
            return chosen
    raise Rejected(f"on_seal is {on_seal!r}, neither 'close' nor 'hold'")


def closed_by_seal(
    released: Released,
    stream_id: str,
    final_cut: Mapping[int, int] | None,
    position: Mapping[int, int],
) -> Released | None:
    """Return what to let in at the end of the stream, `None` while it is not reached.

    >>> closed_by_seal(Released("a", 3, 30), "a", {0: 9}, {0: 8}) is None
    True
    >>> closed_by_seal(Released("a", 3, 30), "a", {0: 9}, {0: 9})
    Released(stream_id='a', seq=3, lower=253402300799999, sealed=True)

    Raises `Rejected` where the stream was made again after that: the query would drop all its rows.
    """
    if released.sealed:
        if stream_id not in {"", released.stream_id}:
            raise Rejected(
                "the stream was sealed, which closed all windows of this query, and was made again "
                "since: start a query with a new checkpoint for it"
            )
        return released
    if final_cut is None or not reaches(position, final_cut):
        return None
    return Released(stream_id, released.seq, LAST_MS, sealed=True)


def watermark_ms(released: Released, *, strict: bool) -> int | None:
    """Return the watermark after a mark was let in: 1 ms below its lower where `strict`.

    At the end of a sealed stream no row follows that this could drop.

    >>> [watermark_ms(Released("a", 3, 30), strict=strict) for strict in (True, False)]
    [29, 30]
    """
    if released.lower is None:
        return None
    return released.lower - 1 if strict and not released.sealed else released.lower
