"""Stores the cuts of consecutive marks by segment, so that positions are found by bisection.

A segment that often moves has a *column*, its offset at each mark. A segment that rarely moves has
*moves*, the marks that moved it and its offsets there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

INT64_CODE: Final = "q"

OFTEN_EVERY = 4
RARELY_EVERY = 16

CHOSEN_EVERY = 32


class _Moves(NamedTuple):
    at: array[int]
    offsets: array[int]


class _Forms(NamedTuple):
    """`move_counts` has the number of moves in each column."""

    columns: dict[int, array[int]]
    moves: dict[int, _Moves]
    move_counts: dict[int, int]


class Cuts:
    """The cuts of marks, numbered from 0.

    One thread may append while others search the marks below a `count` that they read before.

    >>> cuts = Cuts()
    >>> for index, cut in enumerate(({0: 100}, {0: 200, 1: 50}, {0: 200, 1: 90})):
    ...     cuts.append(index, cut)
    >>> cuts.locate({0: 150}, count=3), cuts.locate({0: 200, 1: 50}, count=3)
    ((0, 1), (1, 2))
    >>> cuts.find_reached({0: 150, 1: 60}, count=3)
    {0: 0, 1: 1}
    >>> cuts.at(1)
    {0: 200, 1: 50}
    """

    __slots__ = ("_dropped", "_forms")

    def __init__(self) -> None:
        self._dropped = 0
        self._forms = _Forms({}, {}, {})

    def append(self, index: int, cut: Mapping[int, int]) -> None:
        columns, moves, move_counts = self._forms
        for segment, column in columns.items():
            last_offset = column[-1]
            offset = cut.get(segment, last_offset)
            column.append(offset)
            move_counts[segment] += offset != last_offset
        number = self._dropped + index
        new_moves = {}
        for segment, offset in cut.items():
            segment_moves = moves.get(segment)
            if segment_moves is not None:
                if segment_moves.offsets[-1] != offset:
                    # in this order: a search reads `at` after it finds an offset
                    segment_moves.at.append(number)
                    segment_moves.offsets.append(offset)
            elif segment not in columns:
                new_moves[segment] = _Moves(
                    array(INT64_CODE, (number,)), array(INT64_CODE, (offset,))
                )
        if new_moves:
            # another thread may iterate over the old dict
            self._forms = _Forms(columns, moves | new_moves, move_counts)
        if number % CHOSEN_EVERY == 0:
            self._choose_forms(index + 1)

    def locate(self, position: Mapping[int, int], count: int) -> tuple[int, int]:
        """Return the indexes of the last mark reached and the first mark beyond the position."""
        reached_index = count - 1
        beyond_index = 0
        columns, moves, _ = self._forms
        unknown_count = 0
        for segment, offset in position.items():
            column = columns.get(segment)
            if column is None:
                segment_moves = moves.get(segment)
                if segment_moves is None:
                    unknown_count += 1
                    if offset:
                        beyond_index = count
                else:
                    start, stop = self._within(segment_moves, offset, count)
                    reached_index = min(reached_index, stop - 1)
                    beyond_index = max(beyond_index, start)
            elif reached_index >= 0 and column[reached_index] > offset:
                reached_index = bisect_right(column, offset, 0, reached_index) - 1
                if beyond_index <= reached_index:
                    beyond_index = bisect_left(column, offset, beyond_index, reached_index + 1)
            elif beyond_index < count and column[beyond_index] < offset:
                beyond_index = bisect_left(column, offset, beyond_index, count)
        if len(position) - unknown_count != len(columns) + len(moves):
            reached_index = self._find_reached_without(position, reached_index)
        return reached_index, max(reached_index + 1, beyond_index)

    def _find_reached_without(self, position: Mapping[int, int], last: int) -> int:
        columns, moves, _ = self._forms
        for segment in columns.keys() - position.keys():
            last = bisect_right(columns[segment], 0, 0, last + 1) - 1
        for segment in moves.keys() - position.keys():
            _, first_above = self._within(moves[segment], 0, last + 1)
            last = min(last, first_above - 1)
        return last

    def find_reached(self, position: Mapping[int, int], count: int) -> dict[int, int]:
        """Return the index of the last mark that the position reaches in each segment, or -1."""
        columns, moves, _ = self._forms
        last = count - 1
        reached_marks: dict[int, int] = {}
        for segment, column in columns.items():
            offset = position.get(segment, 0)
            if column[last] <= offset:
                reached_marks[segment] = last
            else:
                reached_marks[segment] = bisect_right(column, offset, 0, last) - 1
        for segment, segment_moves in moves.items():
            _, first_above = self._within(segment_moves, position.get(segment, 0), count)
            reached_marks[segment] = min(last, first_above - 1)
        return reached_marks

    def at(self, index: int) -> dict[int, int]:
        columns, moves, _ = self._forms
        cut = {segment: column[index] for segment, column in columns.items() if column[index]}
        mark = self._dropped + index
        for segment, (move_marks, offsets) in moves.items():
            if move_marks[-1] <= mark:
                move = len(move_marks)
            else:
                move = bisect_right(move_marks, mark)
            if move and offsets[move - 1]:
                cut[segment] = offsets[move - 1]
        return cut

    def segments(self) -> Iterable[int]:
        columns, moves, _ = self._forms
        return columns.keys() | moves.keys()

    def find_start(self, segment: int, count: int) -> int | None:
        columns, moves, _ = self._forms
        if segment in columns:
            first = bisect_right(columns[segment], 0, 0, count)
        elif segment in moves:
            _, first = self._within(moves[segment], 0, count)
        else:
            return None
        return first if first < count else None

    def find_last_move(self, segment: int, count: int) -> int | None:
        """Return the last mark that moved a segment, 0 if that mark was dropped."""
        columns, moves, _ = self._forms
        if segment in columns:
            column = columns[segment]
            return bisect_left(column, column[count - 1], 0, count)
        if segment not in moves:
            return None
        return min(count - 1, max(0, moves[segment].at[-1] - self._dropped))

    def offset(self, segment: int, index: int) -> int:
        columns, moves, _ = self._forms
        if segment in columns:
            return columns[segment][index]
        move_marks, offsets = moves[segment]
        move = bisect_right(move_marks, self._dropped + index)
        return offsets[move - 1] if move else 0

    def drop(self, number: int, count: int) -> None:
        """No other thread may search meanwhile."""
        columns, moves, move_counts = self._forms
        self._dropped += number
        for segment, column in columns.items():
            del column[:number]
            move_counts[segment] = 1 + move_counts[segment] * (count - number) // count
        for move_marks, offsets in moves.values():
            dropped_count = bisect_right(move_marks, self._dropped) - 1
            if dropped_count > 0:
                del move_marks[:dropped_count]
                del offsets[:dropped_count]

    def since(self, start: int, count: int) -> Cuts:
        copy = Cuts()
        (columns, moves, move_counts) = self._forms
        copy._dropped = self._dropped
        copy._forms = _Forms(
            {segment: column[:count] for segment, column in columns.items()},
            {
                segment: _Moves(move_marks[:], offsets[:])
                for segment, (move_marks, offsets) in moves.items()
            },
            dict(move_counts),
        )
        copy.drop(start, count)
        return copy

    def _within(self, moves: _Moves, offset: int, count: int) -> tuple[int, int]:
        """Return the indexes of the first marks at or above an offset, and above it."""
        move = bisect_right(moves.offsets, offset)
        first_above = count
        if move < len(moves.offsets):
            first_above = max(0, moves.at[move] - self._dropped)
        if not offset:
            return 0, first_above
        if move and moves.offsets[move - 1] == offset:
            return max(0, moves.at[move - 1] - self._dropped), first_above
        return first_above, first_above

    def _choose_forms(self, count: int) -> None:
        """Give each segment the form for how often it moves."""
        columns: dict[int, array[int]] = {}
        move_counts: dict[int, int] = {}
        rarely_moved: dict[int, _Moves] = {}
        for segment, column in self._forms.columns.items():
            move_count = self._forms.move_counts[segment]
            if move_count * RARELY_EVERY < count:
                rarely_moved[segment] = self._moves_of(column)
            else:
                columns[segment] = column
                move_counts[segment] = move_count
        moves: dict[int, _Moves] = {}
        least_moves = max(count / OFTEN_EVERY, CHOSEN_EVERY)
        for segment, segment_moves in self._forms.moves.items():
            if len(segment_moves.at) >= least_moves:
                columns[segment] = self._column_of(segment_moves, count)
                move_counts[segment] = len(segment_moves.at)
            else:
                moves[segment] = segment_moves
        if rarely_moved or len(moves) < len(self._forms.moves):
            self._forms = _Forms(columns, moves | rarely_moved, move_counts)

    def _column_of(self, moves: _Moves, count: int) -> array[int]:
        column = array(INT64_CODE)
        offset = 0
        for mark, following in zip(*moves, strict=True):
            column.extend([offset] * (mark - self._dropped - len(column)))
            offset = following
        column.extend([offset] * (count - len(column)))
        return column

    def _moves_of(self, column: array[int]) -> _Moves:
        moves = _Moves(array(INT64_CODE), array(INT64_CODE))
        last_offset = 0
        for mark, offset in enumerate(column, self._dropped):
            if offset != last_offset:
                moves.at.append(mark)
                moves.offsets.append(offset)
                last_offset = offset
        return moves
