"""Which marks cover which source of a query, where Spark keeps the offsets of sources by name.

Spark 4.2 and newer may write them so, in no order (version 2 of its offset log). A source without a
name has its place in the plan as a name there, as the sources of version 1 have here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain, takewhile, zip_longest
from typing import Any

from spark_integration.marks.released import is_of_log, is_of_marks
from spark_integration.session.names import EVENTS_SUFFIX, OWN_PREFIX


def covered_by(sources: Mapping[str, Any], name: str, accepts: Callable[[Any], bool]) -> list[Any]:
    """Return the offsets of what the marks of a name may cover: of one source, if all is well.

    In the order of a plan that is what follows them, up to the next source of ours. Events that we
    read are named after their marks. Of other sources there may be no more than there are marks
    for: the further one may be read under marks that say nothing of it. Of several, it is the one
    whose offset the marks accept.

    >>> sources = {"noted_time_m": {"noted_marks": "b"}, "x": {"a": {}}, "y": {"b": {}}}
    >>> covered_by(sources, "noted_time_m", bool)
    [{'a': {}}, {'b': {}}]
    >>> sources["noted_time_n"] = {"noted_marks": "a"}
    >>> covered_by(sources, "noted_time_m", lambda offset: "b" in offset)
    [{'b': {}}]
    """
    if name.isdigit():
        behind = list(sources.values())[int(name) + 1 :]
        return list(takewhile(lambda each: not (is_of_marks(each) or is_of_log(each)), behind))
    if name + EVENTS_SUFFIX in sources:
        return [sources[name + EVENTS_SUFFIX]]
    marks, others = _unpaired(sources)
    found = [sources[each] for each in others]
    if len(found) == 1 or len(found) > len(marks):
        return found
    return [o for o in found if accepts(o)] or sorted(found, key=lambda o: o is not None)[:1]


def in_order(sources: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the offsets as those of a plan, in which events that are covered come after marks.

    Of several that others read, it is not told which come after which marks.

    >>> in_order({"b": {"b": {}}, "noted_time_m": {"noted_marks": "b"}, "z": {"a": {}}})
    ({'a': {}}, {'noted_marks': 'b'}, {'b': {}})
    """
    if all(map(str.isdigit, sources)):
        return tuple(sources.values())
    marks, others = _unpaired(sources)
    further = others[len(marks) :]
    paired = (each for each in sources if each not in {*marks, *others})
    pairs = chain.from_iterable(zip_longest(marks, others[: len(marks)]))
    return tuple(sources[each] for each in (*further, *paired, *pairs) if each)


def _unpaired(sources: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the marks whose events others read, and the sources of others."""
    marks = [n for n, o in sources.items() if is_of_marks(o) and n + EVENTS_SUFFIX not in sources]
    others = [name for name in sources if not name.startswith(OWN_PREFIX)]
    return marks, others
