"""What `./run mutants` counts."""

import importlib

from tests.mutants.__main__ import RESULT, ROOT, count
from tests.mutants.rooms import ROOMS
from tools.trials import waiting

PRINTED = """
    noted_time.rules.seal.x_cut__mutmut_1: killed
    noted_time.rules.seal.x_cut__mutmut_2: survived
    noted_time.rules.seal.x_cut__mutmut_3: timeout
    noted_time.rules.seal.x_cut__mutmut_4: no tests
    noted_time.rules.seal.x_cut__mutmut_5: not checked
"""


def test_only_a_killed_mutant_is_found() -> None:
    """One that ran out of time is not, nor one that no test calls."""
    results = dict(RESULT.findall(PRINTED))

    assert count(results.values()) == (1, 4)


def test_doctests_keep_their_timeout_under_mutants() -> None:
    """`--doctest-modules` imports it in every run of the suite."""
    importlib.import_module("tests.mutants.quick")

    assert waiting.PATIENCE_S == 180


def test_the_tests_of_each_room_are_there() -> None:
    """Otherwise mutmut has no test to run."""
    for room in ROOMS.values():
        for place in room.tests:
            file, _, test = place.partition("::")
            assert (ROOT / file).exists()
            assert not test or test in (ROOT / file).read_text()
