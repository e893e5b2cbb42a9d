"""The clock of reports: a repair loop misses none, whatever the wall clock does."""

from __future__ import annotations

from operator import neg

from hypothesis import given
from hypothesis import strategies as st

from noted_time.values import DAY_MS, HOUR_MS, TAKEOVER_LOSS_MS, ReportClock

durations = st.one_of(
    st.integers(0, 5_000), st.integers(0, 3 * HOUR_MS), st.integers(0, 4 * DAY_MS)
)
backward_durations = durations.map(neg)
steps = durations | backward_durations
acts = st.one_of(
    st.tuples(st.just("serve"), durations),
    st.tuples(st.just("serve"), st.integers(0, 2_000)),
    st.tuples(st.just("report"), st.just(0)),
    st.tuples(st.just("look"), st.just(0)),
    st.tuples(st.just("step"), steps),
    st.tuples(st.just("restart"), st.integers(0, TAKEOVER_LOSS_MS)),
    st.tuples(st.just("stop"), durations),
    st.tuples(st.just("correct"), backward_durations),
)


class Controllers:
    """A stream's controllers, one after the other, and a loop that looks for reports.

    The service clock goes back to the stored one at a restart, by at most three seconds.
    """

    def __init__(self, wall: int) -> None:
        self.wall = wall
        self.served_ms = 0
        self.stored_ms = 0
        self.clock = ReportClock.begin(0, wall)
        self.reports: list[tuple[int, int]] = []  # each with its service moment and wall time
        self.new: set[int] = set()
        self.looked_at = wall

    def serve(self, ms: int) -> None:
        self.served_ms += ms
        self.wall += ms
        self.stored_ms = max(self.stored_ms, self.served_ms - TAKEOVER_LOSS_MS)

    def report(self, _: int) -> None:
        self.clock = self.clock.follow(self.served_ms, self.wall)
        self.new.add(len(self.reports))
        self.reports.append((self.served_ms, self.wall))

    def list_since(self, wall_ms: int) -> set[int]:
        since_served_ms = self.clock.find_served(wall_ms)
        return {n for n, (served_ms, _) in enumerate(self.reports) if served_ms >= since_served_ms}

    def look(self, _: int) -> None:
        assert self.new <= self.list_since(self.looked_at)
        self.new.clear()
        served_ms = min(self.served_ms - TAKEOVER_LOSS_MS, self.stored_ms)
        self.looked_at = self.clock.show(served_ms)

    def step(self, ms: int) -> None:
        self.wall += ms

    def correct(self, ms: int) -> None:
        """Set the wall clock, and report for an hour."""
        self.wall += ms
        self.report(0)
        self.serve(HOUR_MS)
        self.report(0)

    def restart(self, lost_ms: int) -> None:
        self.served_ms = max(self.stored_ms, self.served_ms - lost_ms)
        self.stored_ms = self.served_ms

    def stop(self, ms: int) -> None:
        """Stand still while the wall clock goes on."""
        self.wall += ms

    def play(self, history: list[tuple[str, int]]) -> None:
        for name, ms in history:
            getattr(self, name)(ms)


@given(st.lists(acts, max_size=60))
def test_loop_misses_no_report(history: list[tuple[str, int]]) -> None:
    """Law: also if the wall clock steps, and if restarts lose service time."""
    controllers = Controllers(1_700_000_000_000)
    controllers.play([*history, ("look", 0)])

    assert controllers.new == set()


def goes_on(act: tuple[str, int]) -> bool:
    """Whether the act does not set a clock back."""
    return act[1] >= 0


@given(st.lists(acts.filter(goes_on), max_size=60), st.data())
def test_time_of_the_wall_clock_lists_the_reports_from_then_on(
    history: list[tuple[str, int]], data: st.DataObject
) -> None:
    """Law: while the wall clock does not go back."""
    controllers = Controllers(1_700_000_000_000)
    controllers.play([*history, ("report", 0)])
    wall_ms = data.draw(st.sampled_from([wall for _, wall in controllers.reports]))

    expected = {n for n, (_, wall) in enumerate(controllers.reports) if wall >= wall_ms}
    assert expected <= controllers.list_since(wall_ms)


def test_many_shifts_are_joined_and_lose_no_report() -> None:
    """A downtime each hour for a week: each is a shift, and the ones most alike are joined."""
    controllers = Controllers(1_700_000_000_000)
    for n in range(7 * 24):
        controllers.play([("serve", HOUR_MS), ("stop", 6_000 + n), ("report", 0), ("look", 0)])
    ats = [wall for _, wall in controllers.reports]

    assert len(controllers.clock.shifts) == 32
    for n, wall_ms in enumerate(ats):
        assert controllers.list_since(wall_ms) >= {*range(n, len(ats))}
    assert controllers.list_since(ats[-1]) == {len(ats) - 1}
