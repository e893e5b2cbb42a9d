"""Limits the time of calls that cannot be cancelled."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Any

from noted_time.values import Unreachable


def call_in_thread(target: str, limit_s: float, function: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Leave a call that takes longer than `limit_s`."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except Exception as error:  # noqa: BLE001 - raised below
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    with suppress(TimeoutError):
        return future.result(limit_s)
    raise Unreachable(f"{target}: no answer for {limit_s:g} s")
