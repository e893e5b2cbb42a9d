"""Asks whether data are complete, as users do."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Answer = TypeVar("Answer")

EVERYONE = ("all", "known")
"""Words of `require` that name no writer."""


def ask(  # noqa: PLR0913 - a user's options
    run: Callable[..., Answer],
    command: str,
    dataset: str,
    time: object = "",
    *,
    require: str = "",
    domain: str = "",
    since: object = "",
    timeout: str = "0s",
    more: Sequence[object] = (),
) -> Answer:
    """Run `wait`, `complete-to` or `why` for a dataset, by its name.

    `require` is "all", "known", or writers that are separated by commas. `wait` asks once, unless
    a `timeout` is given.
    """
    words: list[object] = [command, dataset]
    words += [time] if time != "" else []
    for requirement in require.split(",") if require else ():
        if requirement in EVERYONE:
            words.append(f"--require-{requirement}")
        else:
            words += ["--require", requirement]
    words += ["--domain", domain] if domain else []
    words += ["--since", since] if since != "" else []
    words += ["--timeout", timeout] if command == "wait" else []
    return run(*words, *more)
