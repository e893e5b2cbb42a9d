"""The page about writers runs as it is printed."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import writer_client
from tests.support.page import Session
from tests.writer_client.scripted import Scripted, accepted, results


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after the other; one is fenced, and the last learns that time advanced without it."""
    excluded = {"reason": "timed_out", "since": 1357041600000, "lower": 90}
    held = {"session": "c07d", "label": "host-b:1017", "since": 1357041600000}
    networks = [
        Scripted(),
        Scripted(),
        Scripted(results(accepted()), results({"status": "fenced", "last": held})),
        Scripted(),
        Scripted(results(accepted(lower=90, excluded=excluded))),
    ]
    made = iter(networks)

    def client(*arguments: Any, **options: Any) -> writer_client.WriterClient:  # noqa: ANN401
        make = partial(writer_client.client.WriterClient, transport=next(made))
        return make(*arguments, **options)

    monkeypatch.setattr(writer_client, "WriterClient", client)
    monkeypatch.chdir(tmp_path)
    Session("docs/guides/writers.md", {}).run()

    assert capsys.readouterr().out.splitlines() == [
        "Flushed(lower=None, excluded=None, late_rows=0)",
        "host-b:1017 1357041600000 0 fenced",
        "late: timed_out 1357041600000 90",
        "what was written below 90 may be lost to readers",
    ]
    assert networks[1].notes[0]["timeout_ms"] == 5_400_000
