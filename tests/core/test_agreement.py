"""The aggregator against the rules done by brute force."""

from hypothesis import given

from noted_time import StreamSettings
from tests.support.model import NEVER
from tests.support.twins import WRITERS, Step, Twins, starts, steps


@given(settings=starts, history=steps)
def test_the_aggregator_is_the_rules_done_fast(
    settings: StreamSettings, history: list[Step]
) -> None:
    """Answers, marks, cuts, holders and timeouts are those of a model that forgets nothing."""
    twins = Twins(settings)

    for step in history:
        twins.take(step)

    assert list(twins.code.writers()) == list(twins.model.writers)


@given(settings=starts, history=steps)
def test_without_foretells_what_leaving_a_writer_out_gives(
    settings: StreamSettings, history: list[Step]
) -> None:
    """The lower foretold is the one that comes when the writer is really left out."""
    twins = Twins(settings)
    for step in history:
        twins.take(step)
    keys = list(twins.model.marks)

    foretold = {w: {key: twins.code.without(key, w) for key in keys} for w in WRITERS}

    assert foretold == {
        writer: {k: None if lower == NEVER else lower for k, lower in come.items()}
        for writer, come in ((w, twins.without(w)) for w in WRITERS)
    }
