"""Orders files by name or modification, and tells whether that can be their order of arrival."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from noted_time_extensions.analyse.reading.columns import FileOrder

DIGITS_PATTERN = re.compile(r"(\d+)", re.ASCII)

RANDOM_PATTERN = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.ASCII)
"""A UUID, whose digits say nothing."""

ORDER_WORDS = {"name": "by name", "modified": "by modification time"}


@dataclass(frozen=True, slots=True, eq=False)
class OrderDoubt:
    """Why files may have come in another order, and that order.

    `places` has the place of each file in it, or is `None` for the order of their earliest times.
    """

    reason: str
    order: FileOrder
    other_words: str
    places: NDArray[np.int64] | None


def split_numbers(name: str) -> list[str | int]:
    """Return the texts of a name and the numbers between them, to compare numbers by value.

    >>> sorted(["hour=10/a", "hour=9/b"], key=split_numbers), split_numbers("a07b")
    (['hour=9/b', 'hour=10/a'], ['a', 7, 'b'])
    """
    parts = DIGITS_PATTERN.split(name)
    return [int(part) if number % 2 else part for number, part in enumerate(parts)]


def sort_files(files: Sequence[Path], order: FileOrder | None) -> list[Path]:
    by_name = sorted(files, key=lambda file: (split_numbers(str(file)), str(file)))
    if order == "modified":
        return sorted(by_name, key=_read_modification)
    return by_name


def find_order_doubt(files: Sequence[Path], order: FileOrder) -> OrderDoubt | None:
    """Return the doubt about files that are sorted by an order, `None` if it can be told."""
    times = {_read_modification(file) for file in files}
    have_times = len(times) == len(files)
    names = [str(file) for file in sort_files(files, "name")]
    have_numbers = all(_differ_in_number(*pair) for pair in pairwise(names))
    other_order: FileOrder | None = None
    if order == "name":
        if have_numbers:
            return None
        reason = "their names differ in more than numbers"
        if have_times:
            other_order = "modified"
    else:
        if have_times:
            return None
        reason = "some were modified at the same time"
        if have_numbers:
            other_order = "name"
    if other_order is None:
        return OrderDoubt(reason, order, "in the order of their earliest times", None)
    place_of_file = {file: place for place, file in enumerate(sort_files(files, other_order))}
    places = np.array([place_of_file[file] for file in files])
    return OrderDoubt(reason, order, ORDER_WORDS[other_order], places)


def _read_modification(file: Path) -> int:
    return file.stat().st_mtime_ns


def _differ_in_number(name: str, other_name: str) -> bool:
    """Return whether the first difference of two names is a number, other than in a UUID."""
    parts = split_numbers(RANDOM_PATTERN.sub("", name))
    other_parts = split_numbers(RANDOM_PATTERN.sub("", other_name))
    for part, other_part in zip(parts, other_parts, strict=False):
        if part != other_part:
            return isinstance(part, int)
    return False
