"""Who makes a log late: the rows behind the largest event time so far, by what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Behind(NamedTuple):
    """The rows of one partition, key or writer that are behind: how many, and by how many ms."""

    name: str
    rows: int
    median_ms: float
    worst_ms: int


def behind(arrivals: ArrayLike, times: ArrayLike, names: ArrayLike, most: int = 10) -> list[Behind]:
    """Return whose rows are behind the largest event time before them, the worst first.

    >>> behind([0, 1, 2], [5, 3, 6], ["a", "b", "a"])
    [Behind(name='b', rows=1, median_ms=2.0, worst_ms=2)]
    """
    order = np.argsort(np.asarray(arrivals), kind="stable")
    of_event, of_whom = np.asarray(times, np.int64)[order], np.asarray(names)[order]
    by_ms = np.maximum.accumulate(of_event) - of_event
    late = by_ms > 0
    who, number = np.unique(of_whom[late], return_inverse=True)
    by_who = np.split(
        by_ms[late][np.argsort(number, kind="stable")], np.cumsum(np.bincount(number))[:-1]
    )
    found = [
        Behind(str(name), len(ms), float(np.median(ms)), int(ms.max()))
        for name, ms in zip(who, by_who, strict=False)
    ]
    return sorted(found, key=lambda each: (-each.worst_ms, each.name))[:most]
