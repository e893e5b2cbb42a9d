"""When a reader has a backlog: Flink's cases (tests/golden/README.md) and our rules."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from noted_time.progress import Backlog, BacklogPolicy, BacklogState, Reason, add_reported
from noted_time.progress.backlog import Rule, combine_flags, update_state
from noted_time.values import UNIX_MS, Rejected, format_time

GOLDEN = Path(__file__).parents[1] / "golden" / "flink.json"
CASES: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
NOW = UNIX_MS.start + 10**10
"""A moment long enough after the first Unix ms for every lag of the cases."""


def cases(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in CASES if case["kind"] == kind]


def test_the_cases_are_all_there() -> None:
    """A case cannot be lost from the file unnoticed."""
    kinds = ("backlog_lag", "backlog_combiner", "backlog_coordinator", "metrics")

    assert [len(cases(kind)) for kind in kinds] == [8, 1, 1, 1]


@pytest.mark.parametrize("case", cases("backlog_lag"))
def test_lag_behind_the_wall_clock_decides_as_in_flip_328(case: dict[str, Any]) -> None:
    backlog = Backlog(BacklogPolicy(watermark_lag_ms=case["threshold"], rule=case["rule"]))
    lower: int | None = None
    idle = False
    is_reported = False
    backlogs = []
    for step in case["steps"]:
        lower = NOW - step["value"] if step["op"] == "lag" else lower
        idle = step["op"] == "idle" or (idle and step["op"] == "other")
        is_reported = step.get("backlog", is_reported)
        backlogs.append(backlog.look(NOW, lower, lower, idle=idle, is_reported=is_reported).backlog)

    assert backlogs == [step["expect"]["backlog"] for step in case["steps"]]


@pytest.mark.parametrize("case", cases("backlog_combiner"))
def test_the_flags_of_several_sources_combine_as_in_flink(case: dict[str, Any]) -> None:
    """Flink reports only changes; an unknown flag of a source is not false."""
    flags: dict[int, bool | None] = dict.fromkeys(range(case["channels"]))
    reported_flag = None
    changes = []
    for step in case["steps"]:
        flags[step["channel"]] = step["backlog"]
        flag = combine_flags(flags.values())
        changes.append(None if flag == reported_flag else flag)
        reported_flag = reported_flag if flag is None else flag

    assert changes == [step["expect"]["out"] for step in case["steps"]]


@pytest.mark.parametrize("case", cases("backlog_coordinator"))
def test_one_reason_of_several_makes_a_backlog(case: dict[str, Any]) -> None:
    """The backlog ends when the last reader that had one reports none."""
    flags: dict[str, bool] = {}
    state = BacklogState()
    intervals = []
    for step in case["steps"]:
        flags[step["operator"]] = step["backlog"]
        reasons: list[Reason] = ["reported" for flag in flags.values() if flag]
        state = update_state(state, NOW, reasons)
        intervals.append("during_backlog" if state.backlog else "normal")

    assert intervals == [step["expect"]["interval"] for step in case["steps"]]


@pytest.mark.parametrize(
    "lower", [40_000_000_000, 0, UNIX_MS.start - 1, UNIX_MS.stop, 2**62, -5], ids=format_time
)
def test_only_times_shown_as_dates_are_late(lower: int) -> None:
    """By the wall clock; a reader may be behind in other times, too."""
    backlog = Backlog(BacklogPolicy(watermark_lag_ms=1, reader_lag_ms=1))

    backlogs = [backlog.look(NOW, lower, last).backlog for last in (lower, lower + 2)]
    assert backlogs == [format_time(lower).startswith("1971-"), True]


def test_every_reason_is_named_and_since_when() -> None:
    """The moment is the first look with the present flag."""
    backlog = Backlog(BacklogPolicy(watermark_lag_ms=1000, reader_lag_ms=1000))
    late = NOW - 5000

    assert [
        backlog.look(NOW, late, NOW, is_reported=True),
        backlog.look(NOW + 1, late, late, is_reported=None),
        backlog.look(NOW + 2, NOW, NOW, is_reported=False),
        backlog.look(NOW + 3, NOW, NOW),
    ] == [
        BacklogState(
            backlog=True,
            backlog_causes=("reported", "watermark_lag", "reader_lag"),
            backlog_began_at=NOW,
        ),
        BacklogState(backlog=True, backlog_causes=("watermark_lag",), backlog_began_at=NOW),
        BacklogState(backlog=False, backlog_began_at=NOW + 2, caught_up=True),
        BacklogState(backlog=False, backlog_began_at=NOW + 2, caught_up=True),
    ]


def test_a_readers_report_counts_at_once() -> None:
    state = BacklogState(backlog=True, backlog_causes=("reader_lag",), backlog_began_at=7)
    reported_state = add_reported(state, is_reported=True)
    first = add_reported(BacklogState(), is_reported=True)

    assert first == BacklogState(backlog=True, backlog_causes=("reported",))
    assert (
        reported_state,
        add_reported(reported_state, is_reported=True),
        add_reported(state, is_reported=False),
    ) == (
        BacklogState(backlog=True, backlog_causes=("reported", "reader_lag"), backlog_began_at=7),
        reported_state,
        state,
    )


@pytest.mark.parametrize("threshold", [0, -1])
def test_a_threshold_below_one_is_refused(threshold: Any) -> None:  # noqa: ANN401 - of either field
    """`None` is never."""
    for name in ("watermark_lag_ms", "reader_lag_ms"):
        with pytest.raises(Rejected, match=f"{name} must be 1 or more"):
            BacklogPolicy(**{name: threshold})


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(Rejected, match="two_way, sticky"):
        BacklogPolicy(rule="never")  # type: ignore[arg-type]


lowers = st.none() | st.integers(NOW - 30, NOW)
steps = st.tuples(lowers, lowers, st.booleans(), st.sampled_from((None, True, False)))
thresholds = st.none() | st.integers(1, 30)
rules: st.SearchStrategy[Rule] = st.sampled_from(("two_way", "sticky"))


@given(lag=thresholds, behind=thresholds, rule=rules, looks=st.lists(steps, max_size=12))
def test_backlog_follows_its_definition(
    lag: int | None,
    behind: int | None,
    rule: Rule,
    looks: list[tuple[int | None, int | None, bool, bool | None]],
) -> None:
    """Any reason is enough; a sticky reader's lags no longer count once all were small."""
    assume(rule == "two_way" or lag is not None or behind is not None)
    backlog = Backlog(BacklogPolicy(lag, behind, rule))
    caught_up = False
    for step, (lower, last, idle, is_reported) in enumerate(looks):
        now = NOW + step
        is_lag_known = lower is not None and not idle
        flags: list[bool | None] = []
        if lag is not None:
            flags.append(now - lower > lag if is_lag_known and lower is not None else None)
        if behind is not None:
            flags.append(None if last is None else lower is None or last - lower > behind)
        by_lag = any(flags) and not (caught_up and rule == "sticky")
        caught_up = caught_up or (bool(flags) and all(flag is False for flag in flags))

        assert backlog.look(now, lower, last, idle=idle, is_reported=is_reported).backlog == (
            by_lag or is_reported is True
        )
