"""A law is a function over facts. This module registers laws by their names."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
Found = Iterable[object] | bool
"""The result of a law: accounts of what breaks it, or whether it holds."""

Check = TypeVar("Check", bound=Callable[..., Found])


class Law(NamedTuple):
    """A promise, the page that makes it, and the function that checks it."""

    number: str
    name: str
    sentence: str
    source: str
    check: Callable[..., Found] | None = None
    """`None` if a trial observes itself whether the law holds."""


LAWS: dict[str, Law] = {}


def law(number: str, source: str) -> Callable[[Check], Check]:
    """Register a function as a law. Its docstring is the promise, its parameters are the facts."""

    def register(check: Check) -> Check:
        name = name_law(check)
        sentence = (check.__doc__ or "").partition("\n")[0]
        LAWS[name] = Law(number, name, sentence, source, check)
        return check

    return register


def observe(number: str, name: str, sentence: str, source: str) -> str:
    """Register a law that no function checks, and return its name."""
    LAWS[name] = Law(number, name, sentence, source)
    return name


def name_law(check: Callable[..., Any]) -> str:
    return check.__name__.replace("_", " ")
