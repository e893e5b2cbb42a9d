"""Every chain has the properties that followers rely on."""

from itertools import pairwise

from hypothesis import given

from noted_time.values import StreamSettings
from tests.core.acts import ALL_TROUBLE, DOMAINS, Act, make_world, streams
from tests.support.http import as_json
from tests.trials.facts import Answer
from tests.trials.judge import judge


@given(settings=streams, history=ALL_TROUBLE)
def test_a_follower_may_rely_on_every_chain(settings: StreamSettings, history: list[Act]) -> None:
    """Followers may begin at any mark, also after the seal. An upper never falls."""
    world = make_world(settings, history)
    world.seal()

    for domain in DOMAINS:
        chain = [as_json(mark) for mark in world.marks(domain)]
        answers = [Answer(seq, chain[seq:]) for seq in range(len(chain), -1, -1)]

        assert judge(answers=answers) == []
        for mark, next_mark in pairwise(chain):
            assert mark["upper"] <= next_mark["upper"]
