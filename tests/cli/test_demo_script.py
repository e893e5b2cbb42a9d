from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from noted_time import Accepted, Aggregator, Note, StreamSettings
from noted_time.client import position_from_wire
from noted_time_cli.demos import (
    ROUND_S,
    SETTINGS,
    SLOW,
    TIMEOUT_S,
    WRITERS,
    Beginning,
    Scene,
    scene,
)

TEN = 1_357_034_400_000
START = Beginning(TEN)


def scenes(seconds: int, beginning: Beginning = START) -> list[Scene]:
    """Return what happens in the first seconds."""
    return [scene(second, beginning) for second in range(seconds)]


def played(seconds: int) -> list[tuple[str, ...]]:
    """Play by the rules of aggregation; return the excluded writers after each second."""
    stream = Aggregator(
        StreamSettings(
            writer_timeout_ms=SETTINGS["writer_timeout_ms"], expected_writers=tuple(WRITERS)
        )
    )
    excluded = []
    for second, each in enumerate(scenes(seconds)):
        now = second * 1000
        for note in each.notes:
            position = position_from_wire(note["position"])
            taken = stream.note(Note(note["writer"], note["time"], position), now)
            assert isinstance(taken, Accepted)
        stream.expire(now)
        while stream.advance("default", now=now, written_at=now) is not None:
            pass
        excluded.append(tuple(w for w in WRITERS if stream.record(w).excluded))
    return excluded


def test_at_first_one_writer_holds_minutes_behind_the_others() -> None:
    """There is something to look at as soon as the play begins."""
    notes = scene(0, START).notes

    assert {note["writer"]: (TEN - note["time"]) // 1000 for note in notes} == {
        "berlin": 1,
        "nairobi": 2,
        "osaka": 1,
        SLOW: 194,
    }


def test_the_quick_writers_note_every_second_the_slow_one_rarely() -> None:
    """Of its notes none is missing, as it must not time out before it falls silent."""
    noted = [{note["writer"] for note in each.notes} for each in scenes(31)]

    assert [second for second, names in enumerate(noted) if SLOW in names] == [0, 10, 20, 30]
    assert all(names | {SLOW} == set(WRITERS) for names in noted)


def test_once_in_a_round_the_slow_writer_times_out_and_comes_back() -> None:
    """By the rules of aggregation, and when the script has it."""
    excluded = played(ROUND_S + 100)
    out = [second for second, names in enumerate(excluded) if names == (SLOW,)]
    said = {second: each.says for second, each in enumerate(scenes(ROUND_S)) if each.says}

    silent = range(30 + TIMEOUT_S, 80)
    assert out == [*silent, *(second + ROUND_S for second in silent)]
    assert list(said) == [0, 40, 51, 80, 90]


def test_a_play_is_the_same_every_time() -> None:
    """It depends on the second and on the beginning alone."""
    assert scenes(400) == scenes(400)


@given(
    left=st.dictionaries(st.sampled_from([*WRITERS]), st.integers(TEN - 10**6, TEN + 10**6)),
    offsets=st.dictionaries(st.integers(0, 3), st.integers(0, 10**6)),
)
def test_nothing_goes_back(left: dict[str, int], offsets: dict[int, int]) -> None:
    """Neither times nor positions, nor below what an earlier play left; the reader stays behind."""
    beginning = Beginning(TEN, left, offsets)
    seconds = scenes(2 * ROUND_S, beginning)

    for writer in WRITERS:
        notes = [note for each in seconds for note in each.notes if note["writer"] == writer]
        times = [left.get(writer, 0), *(note["time"] for note in notes)]
        ends = [end for note in notes for end in note["position"].values()]
        (segment,) = notes[0]["position"]
        ends.insert(0, offsets.get(int(segment), 0))
        assert all(a <= b for series in (times, ends) for a, b in pairwise(series))
        read = [each.read[segment] for each in seconds]
        assert all(a <= b for a, b in pairwise(read))
        assert read[-1] <= ends[-1]
