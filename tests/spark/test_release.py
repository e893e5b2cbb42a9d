"""The mark that each position admits; no Spark runs here."""

import logging
import re
from collections.abc import Mapping
from typing import Any, get_args

import pytest
from msgspec import convert, structs

from noted_time import Mark, StreamCut
from noted_time.values import MIN_INT64
from spark_integration.marks.arguments import OnSeal
from spark_integration.marks.feed import FeedMarks
from spark_integration.marks.offset import StreamOffset
from spark_integration.marks.release import Releaser
from spark_integration.marks.released import Released, Watermark
from spark_integration.marks.watermark import LAST_MS
from tests.support.feeds import LocalFeed

YEAR_1 = -62_135_596_799_999


class GivenFeed(LocalFeed):
    """A feed with the test's marks."""

    def __init__(self, *answers: FeedMarks) -> None:
        self.answers = list(answers)
        self.begun_at: list[Released] = []

    def begin(self, released: Released) -> None:
        """Remember the position."""
        self.begun_at.append(released)

    def take(self) -> FeedMarks:
        """Return the next answer, or an empty one of the last stream."""
        answer, *later_answers = self.answers
        self.answers = later_answers or [FeedMarks(answer.stream_id)]
        return answer

    def explain(self, position: Mapping[int, int]) -> str:
        """Return the position in a sentence."""
        return f"no mark at {position}"


def mark(seq: int, lower: int, **cut: int) -> Mark:
    """Return a mark; `cut` names segments as `s0`, `s1`."""
    offsets = {int(name[1:]): offset for name, offset in cut.items()}
    return Mark(seq, lower, lower, StreamCut(offsets))


def test_feed_continues_after_the_mark_that_was_admitted() -> None:
    feed = GivenFeed(FeedMarks("a", (mark(8, 80, s0=1),)))
    Releaser(feed).follow(Released("a", 7, 70))

    assert feed.begun_at == [Released("a", 7, 70)]


def test_no_time_is_before_the_first_mark_after_the_final_one() -> None:
    """This holds with `hold`, too. A feed without an answer changes nothing."""
    for on_seal in get_args(OnSeal):
        marks = mark(1, 10, s0=1), structs.replace(mark(2, 20, s0=3), final=True)
        known_marks = FeedMarks("a", marks, final_cut={0: 3}, first_lower=7)
        releaser = Releaser(GivenFeed(known_marks, FeedMarks()), on_seal)
        releaser.follow(Released())
        releases = [releaser.release(Released(), {0: end}) for end in (1, 3)]
        first_lowers = [releaser.find_first_lower(release, 5) for release in releases]
        releaser.follow(releases[0])
        assert [*first_lowers, releaser.find_first_lower(releases[0], 5)] == [7, MIN_INT64, 5]


def test_marks_that_are_no_longer_kept_are_skipped() -> None:
    """A query that paused for longer than the retention continues with the kept marks."""
    feed = GivenFeed(FeedMarks("a", (mark(3, 30, s0=1),)), FeedMarks("a", (mark(7, 70, s0=4),)))
    releaser = Releaser(feed)
    for _ in range(2):
        releaser.follow(Released())

    assert releaser.release(Released(), {0: 4}) == Released("a", 7, 70)


def test_first_lower_counts_until_a_mark_is_read() -> None:
    """Without marks, the lower is unknown."""
    releaser = Releaser(GivenFeed(FeedMarks("a", (mark(1, 10, s0=1), mark(2, 20, s0=9)))))
    before = releaser.find_lower({0: 9})
    releaser.follow(Released())

    assert (before, [releaser.find_lower({0: n}) for n in (0, 1, 9)]) == (None, [10, 10, 20])


def test_query_without_a_mark_logs_the_reason_once(caplog: pytest.LogCaptureFixture) -> None:
    """The query has read rows, and one micro-batch has passed."""
    releaser = Releaser(GivenFeed(FeedMarks("a", (mark(1, 10, s0=90),))))
    releaser.follow(Released())
    positions: list[dict[int, int]] = [{0: 0}, {0: 0}, {0: 3}, {0: 4}]
    let_in = [releaser.release(Released(), position) for position in positions]

    assert let_in == [Released()] * 4
    (message,) = caplog.messages
    assert message == (
        "stream 'flights', domain 'default': the query has read rows, and no mark covers them yet, "
        "so the watermark is not set and no window closes. no mark at {0: 3}"
    )


@pytest.mark.parametrize("lower", [253_402_300_800_000, 2**63 - 1])
def test_marks_beyond_the_year_9999_are_skipped_and_named_once(
    caplog: pytest.LogCaptureFixture, lower: int
) -> None:
    """All later marks are beyond it too, until the stream is recreated."""
    beyond = (mark(2, lower, s0=2), mark(3, lower + 1, s0=3))
    feed = GivenFeed(
        FeedMarks("a", (mark(1, 10, s0=1), *beyond)),
        FeedMarks("b", (mark(1, 20, s0=1),)),
        FeedMarks("c"),
    )
    releaser = Releaser(feed)
    let_in = []
    for _ in range(3):
        releaser.follow(Released())
        let_in.append((releaser.release(Released(), {0: 9}), releaser.last_lower))

    assert let_in == [(Released("a", 1, 10), 10), (Released("b", 1, 20), 20), (Released(), None)]
    assert caplog.record_tuples == [
        (
            "noted_time.spark",
            logging.WARNING,
            f"stream 'flights', domain 'default': mark 2 with lower {lower} {LEFT_OUT}",
        )
    ]


def test_inexpressible_mark_of_the_offset_log_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Its lower does not count, so the next mark is admitted."""
    json = {"mark": {"stream_id": "a", "seq": 7, "lower": 2**63 - 1}}
    released_mark = convert(json, StreamOffset).mark
    releaser = Releaser(GivenFeed(FeedMarks("b", (mark(1, 10, s0=1),))))
    releaser.follow(released_mark)

    assert releaser.release(released_mark, {0: 1}) == Released("b", 1, 10)
    subject = "stream 'flights', domain 'default'"
    assert caplog.messages == [f"{subject}: mark 7 of the offset log {LEFT_OUT}"]


LEFT_OUT = (
    "is left out, because Spark's timestamps are Unix ms of the years 1 to 9999; "
    "the watermark advances with the next mark in this range"
)


@pytest.mark.parametrize(
    ("released", "options", "ms", "because"),
    [
        (Released(), {}, None, "no mark has its cut read"),
        (Released("a", 3, 30), {}, 29, "mark 3 is read: lower 30, less 1 ms"),
        (Released("a", 3, 30), {"strict": False}, 30, "lower 30"),
        (Released("a", 3, 30), {"lag_ms": 9}, 20, "less 9 ms .*, less 1 ms"),
        (Released("a", 3, YEAR_1), {"lag_ms": 1}, None, "which Spark cannot express"),
        (Released("a", 3, LAST_MS, sealed=True), {}, LAST_MS, "sealed stream is read to its end"),
    ],
)
def test_watermark_has_its_reason(
    released: Released, options: dict[str, Any], ms: int | None, because: str
) -> None:
    """It names the mark and everything that was subtracted, or the end of the stream."""
    watermark = Watermark.of(released, **{"strict": True, **options})

    assert watermark.ms == ms
    assert re.search(because, watermark.because)


def test_watermark_names_the_wait_of_the_next_mark() -> None:
    """It is the first segment that is not read to its cut."""
    watermark = Watermark(29, "so it is")
    following = [mark(4, 40, s0=5, s1=9), mark(5, 50, s0=7, s1=9)]
    reasons = [watermark.explain_wait(marks, {0: 5, 1: 8}).because for marks in (following, [])]

    assert reasons == ["so it is; mark 4 needs segment 1 to 9, read to 8", "so it is"]
