"""What arrives of a reader's reports, whatever happens on the way."""

from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from reader_client.reports import Reports

Fate = Literal["answered", "lost", "applied but not answered"]
reported = st.dictionaries(st.integers(0, 3), st.integers(0, 99))
fates = st.sampled_from(["answered", "lost", "applied but not answered"])


def post(reports: Reports, known: dict[int, int], fate: Fate) -> None:
    """Report once, with this fate; `known` is what the controller knows."""
    taken = reports.take()
    if fate != "lost":
        known.update(taken)
    if fate == "answered":
        reports.answered(known)
    else:
        reports.put_back()


@settings(deadline=None)
@given(st.lists(reported | fates))
def test_the_last_offset_of_each_segment_arrives(acts: list[dict[int, int] | Fate]) -> None:
    """Lost reports and lost answers delay what was reported and change nothing of it."""
    reports, known, last = Reports(), dict[int, int](), dict[int, int]()
    for act in acts:
        if isinstance(act, dict):
            reports.report(act)
            last.update(act)
        else:
            post(reports, known, act)
    while reports.due:
        post(reports, known, "answered")

    assert (known, reports.position) == (last, last)


@settings(deadline=None)
@given(st.lists(reported | fates))
def test_a_group_position_has_the_readers_own_last_word(acts: list[dict[int, int] | Fate]) -> None:
    """Whatever is under way, the reader's own segments are at its last report."""
    reports, known, last = Reports(), {9: 9}, {9: 9}
    post(reports, known, "answered")
    for act in acts:
        if isinstance(act, dict):
            reports.report(act)
            last.update(act)
        else:
            post(reports, known, act)

    assert reports.position == last


@settings(deadline=None)
@given(st.lists(reported | fates | st.frozensets(st.integers(0, 3))))
def test_released_segments_are_another_readers_until_they_are_reported_again(
    acts: list[dict[int, int] | Fate | frozenset[int]],
) -> None:
    """It reports each segment that it released at 100; this reader's offsets are below that."""
    reports, known, last = Reports(), dict[int, int](), dict[int, int]()
    for act in acts:
        if isinstance(act, dict):
            reports.report(act)
            last.update(act)
        elif isinstance(act, frozenset):
            reports.release(act)
            known.update(dict.fromkeys(act, 100))
            last.update(dict.fromkeys(act, 100))
        else:
            post(reports, known, act)
    reports.announce()
    while reports.due:
        post(reports, known, "answered")

    assert known == last
