"""Which writers a domain waits for: cheap to ask, and the same as its decision says."""

from hypothesis import given

from noted_time import Aggregator, Hold, Note, StreamSettings
from tests.core.twins import Step, Twins, starts, steps
from tests.support.streams import deliver, marks_of, restarted, stream_of, waiting


@given(settings=starts, history=steps)
def test_whom_a_domain_waits_for_are_those_its_decision_names(
    settings: StreamSettings, history: list[Step]
) -> None:
    """None if it may advance or is quiet, whoever is late; and in the order they began."""
    twins = Twins(settings)
    for step in history:
        twins.take(step)
        for domain in twins.code.settings.domains:
            shown = twins.code.domains[domain].waited_for()
            decision = twins.code.decide(domain, twins.now)
            named = decision.waiting_for if isinstance(decision, Hold) else ()

            assert set(shown) == {each.writer for each in named}
            assert [twins.now - each.began for each in shown.values()] == [
                each.held_for_ms for each in named
            ]


def test_a_live_member_that_returned_late_is_waited_for_by_a_flush_alone() -> None:
    """The domain does not wait for it while another is ahead; in the end only it is left."""
    stream = Aggregator(StreamSettings(returning_writer="exclude"))
    deliver(stream, Note("late"), Note("UA", 10), Note("late", state="idle"))
    marks_of(stream)
    deliver(stream, Note("late", 5), Note("UA", 20))
    ahead = set(stream.domains["default"].waited_for())
    deliver(stream, Note("UA", state="finished"))

    assert (ahead, set(stream.domains["default"].waited_for())) == (set(), {"late"})
    assert [each.writer for each in waiting(stream)] == ["late"]


def test_after_a_restart_the_longest_holder_still_comes_first() -> None:
    """Members are read in the order of their names, which is not that in which they began."""
    stream = stream_of("z", now=5)
    deliver(stream, Note("m"), now=9)
    deliver(stream, Note("a"), now=7)
    again = restarted(stream)

    shown = again.domains["default"].waited_for()
    assert [*shown] == [each.writer for each in waiting(again)] == ["z", "a", "m"]
