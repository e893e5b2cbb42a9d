"""The types of the fields of answers: what clients check before they use one.

A field of a name has the same meaning in all answers, so one table has the types of all; OpenAPI
has no others. `null` and fields that this client does not know pass: who reads a field knows
whether it has to be there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noted_time.values import MAX_INT64, MIN_INT64

SHOWN = 200
"""Maximum number of characters shown of what is malformed."""

FIELDS = {
    (int,): """at before behind_ms buckets complete_to count end excluded_marks exclusions
        expected expected_vouching finished first_at first_lower first_offset first_seen from_seq
        held_for_ms held_until holders holding_since idle lag_ms last_lower last_offset last_seen
        late_count least live lower lower_seq mark_interval_ms mark_retention_ms max_offset_jump
        max_segments max_time_ahead_ms missing_count missing_from missing_joined_later most
        needed next_lower next_seq not_vouching_count noted_at now number offset out_at
        reader_timeout_ms refused reported_at rows segment seq silent_ms since start time
        timeout_ms times_out_in_ms total unanswered until upper upper_seq watermark_lag_ms
        writer_retention_ms writer_timeout_ms writers_total written_at""",
    (bool,): """administer ahead_of_stream answered at_most backlog before_first_mark beyond
        changes_are_known exact final has_more has_position is_expected is_silent late_is_known
        missing_is_known names_known observes quiet read_all tokens unknown upper_is_bound""",
    (str,): """action by code comment decision detail domain field given group held held_by
        held_for hint id kind known label name reason returning_writer revision rule silence
        state stream_id title token type url version writer""",
    (list,): """because changes controllers domains entries expected_writers groups hints lag
        logs missing names never_noted not_vouching order points predecessors read results
        returned sentences streams successors took_over unmet waiting_for write""",
    (dict,): """backlog_policy by_itself conditions created cut dropped final_cut is lags
        position seal states times vouched vouching was would""",
    (int, dict): "behind from lower_without readers to",
    (int, list, dict): "excluded last marks segments",
    (int, list): "scale_events",
    (int, str): "next status",
    (bool, dict): "sealed",
    (str, dict): "reader session",
    (list, dict): "late windows writers",
}
TYPES = {name: types for types, names in FIELDS.items() for name in names.split()}

_NAMED = """behind conditions created cut dropped final_cut from lags late lower_without marks
    position readers sealed segments states times to vouching windows"""
KEYED = frozenset(_NAMED.split())
"""Fields whose objects have names or numbers for keys: of domains, segments, writers, readers."""

BY_KEY = (int, dict, list)
ANY_KEYS = ("was", "is", "last")
WORDS = {int: "an int64", bool: "true or false", str: "a string", list: "a list", dict: "an object"}


def check_types(answer: dict[str, Any]) -> None:
    """Raise `TypeError` if a field has another type than it has in answers, with its value.

    >>> check_types({"marks": [{"seq": 1, "lower": 5}], "more": "new"})
    >>> check_types({"marks": [{"seq": 1, "lower": "5"}]})
    Traceback (most recent call last):
        ...
    TypeError: `lower` is '5', which is not an int64
    """
    within: list[tuple[str, Any]] = [("", answer)]
    while within:  # not by recursion: an answer may be nested deeply
        name, found = within.pop()
        if isinstance(found, list):
            within += [("", each) for each in found if isinstance(each, dict | list)]
        elif name not in ANY_KEYS:
            within += _checked(name, found)


def _checked(of: str, found: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Check the values of an object, and yield those that have some themselves."""
    is_keyed = of in KEYED
    by_key = TYPES["status"] if of == "states" else BY_KEY
    for key, value in found.items():
        types, kind = by_key if is_keyed else TYPES.get(key), type(value)
        if kind is int and types and types[0] is int and MIN_INT64 <= value <= MAX_INT64:
            continue  # most are: a page of marks has a million offsets
        if types is not None and value is not None and (kind is int or kind not in types):
            name, words = of if is_keyed else key, " or ".join(WORDS[each] for each in types)
            raise TypeError(f"`{name}` is {value!r:.{SHOWN}}, which is not {words}")
        if kind is dict or kind is list:
            yield "" if is_keyed else key, value
