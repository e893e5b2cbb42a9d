"""Finds the laws that the facts of a trial break."""

import inspect
from collections.abc import Callable
from typing import NamedTuple

from tests.trials import laws, writer_laws
from tests.trials.law import LAWS, Found, P, name_law

MODULES = laws, writer_laws  # which register their laws
CHECKS = {
    each.check: inspect.signature(each.check).parameters.values()
    for each in LAWS.values()
    if each.check is not None
}
"""The facts that each law compares."""


class Broken(NamedTuple):
    """A law that does not hold, and an account of it."""

    law: str
    account: object

    def __str__(self) -> str:
        return f"{self.law}: {self.account}"


def judge(**facts: object) -> list[Broken]:
    """Check each law whose facts are all known, and return what breaks them.

    Raises `AssertionError` if no law compares a fact.
    """
    found, used = list[Broken](), set[str]()
    for check, parameters in CHECKS.items():
        if all(each.name in facts or each.default is not each.empty for each in parameters):
            given = {each.name: facts[each.name] for each in parameters if each.name in facts}
            found += check_law(check, **given)
            used |= given.keys()
    assert facts.keys() == used, f"no law compares {facts.keys() - used}"
    return found


def check_law(check: Callable[P, Found], *facts: P.args, **named: P.kwargs) -> list[Broken]:
    """Check one law, and return what breaks it."""
    found = check(*facts, **named)
    if isinstance(found, bool):
        return [] if found else [Broken(name_law(check), (*facts, *named.values()))]
    return [Broken(name_law(check), each) for each in found]
