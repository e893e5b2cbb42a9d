"""Counts the cost of a call: bytecodes, and comparisons of times in heaps."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import controller
import noted_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from _typeshed import TraceFunction

OURS = tuple(str(Path(each.__path__[0])) for each in (noted_time, controller))


@dataclass
class Cost:
    """The bytecodes of the core and the controller, and the comparisons of times."""

    bytecodes: int = 0
    comparisons: int = 0


class CountedTime(int):
    """A time that counts each comparison, also in the C code of heaps and `min`."""

    compared = 0
    __hash__ = int.__hash__


def _count_comparisons(name: str) -> None:
    def compare(first: CountedTime, other: object) -> object:
        CountedTime.compared += 1
        return getattr(int, name)(first, other)

    setattr(CountedTime, name, compare)


for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__"):
    _count_comparisons(_name)


@contextmanager
def count_cost() -> Iterator[Cost]:
    cost = Cost()
    before = sys.gettrace()
    earlier_count = CountedTime.compared
    sys.settrace(_count_bytecodes(cost))
    try:
        yield cost
    finally:
        sys.settrace(before)
        cost.comparisons = CountedTime.compared - earlier_count


def _count_bytecodes(cost: Cost) -> TraceFunction:
    def within(frame: FrameType, trace_event: str, _: object) -> TraceFunction:
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        cost.bytecodes += trace_event == "opcode"
        return within

    def entering(frame: FrameType, trace_event: str, detail: object) -> TraceFunction | None:
        return (
            within(frame, trace_event, detail)
            if frame.f_code.co_filename.startswith(OURS)
            else None
        )

    return entering
