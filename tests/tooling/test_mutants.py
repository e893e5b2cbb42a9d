"""What `./run mutants` counts."""

import importlib

from demo.trials import waiting
from tests.mutants.__main__ import RESULT, count

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


def test_doctests_import_the_plugin_of_mutants_and_wait_as_long_as_before() -> None:
    """`--doctest-modules` imports it in every run of the suite."""
    importlib.import_module("tests.mutants.quick")

    assert waiting.PATIENCE_S == 600
