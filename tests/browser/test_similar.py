"""A mistyped name leads to similar ones."""

from difflib import SequenceMatcher, get_close_matches
from random import Random

from controller.api.pages.assets import ASSETS_VERSION
from tools.trials.browser import Visit

SIMILAR = """async ([path, name, names]) => {
    const {similarity, similarNames} = await import(path);
    return [names.map(other => similarity(other, name)), similarNames(name, names)];
}"""


def test_similar_names_are_those_of_the_command_line(visit: Visit) -> None:
    """The page measures as Python's `difflib` does, which the command line uses."""
    random = Random(5)
    names = ["".join(random.choices("orde-", k=random.randint(1, 12))) for _ in range(300)]
    visit.open()
    for name in ("orders", "order-ed", "e"):
        path = f"{visit.url}/assets/{ASSETS_VERSION}/similar.js"
        scores, similar = visit.page.evaluate(SIMILAR, [path, name, names])
        exact_scores = [SequenceMatcher(None, other, name).ratio() for other in names]

        assert similar == get_close_matches(name, names, cutoff=0.75)
        assert [score for score in scores if score] == [
            exact for exact, score in zip(exact_scores, scores, strict=True) if score
        ]
        assert all(score for score, exact in zip(scores, exact_scores, strict=True) if exact > 0.75)
