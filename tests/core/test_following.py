"""Every chain has the properties that followers rely on."""

from itertools import pairwise

from hypothesis import given

from noted_time.values import StreamSettings
from tests.core.acts import DOMAINS, Act, histories, make_world, streams
from tests.support.http import as_json
from tests.support.streams import seal
from tests.trials.facts import Answer
from tests.trials.judge import judge


@given(settings=streams, history=histories("waits", "scales", "restarts", "late"))
def test_a_follower_may_rely_on_every_chain(settings: StreamSettings, history: list[Act]) -> None:
    """Followers may begin at any mark, also after the seal. An upper never falls."""
    world = make_world(settings, history)
    made = {domain: [m.mark for m in world.made if m.domain == domain] for domain in DOMAINS}
    seal(world.stream)
    for domain, marks in made.items():
        last = world.stream.domains[domain].last
        if last and last.final:
            marks.append(last)

    chains = [[as_json(mark) for mark in marks] for marks in made.values()]
    answers = [[Answer(at, chain[at:]) for at in range(len(chain), -1, -1)] for chain in chains]

    assert [judge(answers=each) for each in answers] == [[] for _ in DOMAINS]
    assert all(one["upper"] <= two["upper"] for chain in chains for one, two in pairwise(chain))
