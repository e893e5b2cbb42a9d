"""The end of a stream: the final cut, the last marks, and what holds after them."""

from hypothesis import given
from hypothesis import strategies as st

from noted_time.values import Sealed, StreamSettings, reaches
from tests.core.model import NEVER
from tests.core.twins import Step, Twins, starts, steps
from tests.support.streams import restart, seal


@given(settings=starts, history=steps, restarts=st.booleans())
def test_after_any_history_a_seal_ends_the_stream(
    settings: StreamSettings, history: list[Step], *, restarts: bool
) -> None:
    twins = Twins.replay(settings, history)
    code = twins.code
    model = twins.model
    before = {domain: code.domains[domain].last for domain in model.marks}
    if restarts:
        code = restart(code, twins.appended_served_ms, twins.declared_served_ms)

    final_cut = seal(code).final_cut
    model.end_removals()

    assert reaches(final_cut, model.complete(dict(final_cut)))
    for writer in model.writers.values():
        assert reaches(final_cut, writer.position)
    for domain, last in before.items():
        mark = code.domains[domain].last
        # a restart forgets a noted time that stood for the largest until that was declared
        upper = model.find_largest(domain) if restarts else model.upper.get(domain, NEVER)
        assert mark is not None
        if mark == last:
            assert upper < mark.lower
            assert reaches(mark.cut.offsets, final_cut)
        else:
            assert (mark.final, mark.cut.offsets) == (True, final_cut)
            assert mark.upper >= upper
            assert mark.seq == (last.seq if last else 0) + 1
            assert mark.lower == max(mark.upper, last.lower if last else mark.upper) + 1
            for writer in model.list_counted(domain):
                is_silent = writer.time(domain) == NEVER
                assert (writer.name in mark.excluded) == is_silent
        assert code.decide(domain, twins.now) == Sealed()
        assert not code.may_advance(domain)
    assert {code.record(writer).state for writer in code.writers()} <= {"finished"}
    assert code.expire(twins.now + 10**9) == ()
