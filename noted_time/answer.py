"""What a writer is told of its note."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Accepted:
    """The note counts; `lower` is that of its key's last mark, `None` before the first."""

    lower: int | None


@dataclass(frozen=True, slots=True)
class Refused:
    """The note fell behind what its writer said before, or goes beyond a bound.

    `last` is what it fell behind: an int for `invalid_time`, the offsets of the offending segments
    for `invalid_position`, the declared keys for `unknown_key`, the largest sequence accepted of
    the writer for `superseded`. Or the bound: the largest time allowed now for `too_far_ahead`, the
    number of them for `too_many_segments` (of one writer) and `too_many_writers`.
    """

    status: Literal[
        "invalid_time",
        "invalid_position",
        "unknown_key",
        "superseded",
        "too_far_ahead",
        "too_many_segments",
        "too_many_writers",
    ]
    last: int | Mapping[int, int] | tuple[str, ...]
