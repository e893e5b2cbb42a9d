"""Asks whether data are complete, as users do. Only this module knows the options and the route."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.support.calls import Calls

Answer = TypeVar("Answer")

EVERYONE = ("all", "known")
"""Words of `require` that name no writer."""


def ask(  # noqa: PLR0913 - what a user may ask
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
    """Run `wait`, `complete-to` or `why` for a dataset, by the name that `why` takes.

    `require` is "all", "known", or writers that are separated by commas. `wait` asks once, unless
    a `timeout` is given.
    """
    words: list[object] = [command, *_name_dataset(command, dataset)]
    words += [time] if time != "" else []
    for each in filter(None, require.split(",")):
        words += [f"--require-{each}"] if each in EVERYONE else ["--require", each]
    words += ["--domain", domain] if domain else []
    words += ["--since", since] if since != "" else []
    words += ["--timeout", timeout] if command == "wait" else []
    return run(*words, *more)


def _name_dataset(command: str, dataset: str) -> list[str]:
    kind, _, place = dataset.partition(":")
    if command == "why":
        return [dataset]
    if kind in {"delta", "iceberg"}:
        return ["--table", dataset]
    if kind == "group":
        name, _, topic = place.rpartition("@")
        brokers, _, stream = topic.rpartition("/")
        return [stream, "--kafka", brokers, "--group", name]
    if "/" in dataset:
        return [Path(dataset).name, "--checkpoint", dataset]
    return [dataset]


def ask_cut(calls: Calls, stream: str, time: int, *, require: str = "", **query: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return the first mark of a stream that is complete to a time, over HTTP."""
    words = [each for each in require.split(",") if each]
    asked = {f"require_{each}": True for each in words if each in EVERYONE}
    named = [each for each in words if each not in EVERYONE]
    query |= asked | ({"require": named} if named else {})
    return calls.ask("GET", f"/streams/{stream}/cut", complete_to=time, **query).json()
