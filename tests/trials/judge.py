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
    broken_laws = list[Broken]()
    used = set[str]()
    for check, parameters in CHECKS.items():
        if all(
            parameter.name in facts or parameter.default is not parameter.empty
            for parameter in parameters
        ):
            law_facts = {
                parameter.name: facts[parameter.name]
                for parameter in parameters
                if parameter.name in facts
            }
            broken_laws += check_law(check, **law_facts)
            used |= law_facts.keys()
    assert facts.keys() == used, f"no law compares {facts.keys() - used}"
    return broken_laws


def check_law(check: Callable[P, Found], *facts: P.args, **named_facts: P.kwargs) -> list[Broken]:
    """Check one law, and return what breaks it."""
    finding = check(*facts, **named_facts)
    if isinstance(finding, bool):
        return [] if finding else [Broken(name_law(check), (*facts, *named_facts.values()))]
    return [Broken(name_law(check), account) for account in finding]
