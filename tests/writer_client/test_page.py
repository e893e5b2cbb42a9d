"""The examples of the page about writers."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

import writer_client
from tests.support.page import Session
from tests.writer_client.scripted import Scripted, accepted, results


def test_writers_page_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    """One example is fenced, and the last one is excluded."""
    exclusion = {"reason": "timed_out", "excluded_at": 1357041600000, "lower": 90}
    session = {"session": "c07d", "label": "host-b:1017", "began_at": 1357041600000}
    networks = [
        Scripted(),
        Scripted(results(accepted()), results({"status": "fenced", "last": session})),
        Scripted(),
        Scripted(results(accepted(lower=90, excluded=exclusion))),
    ]
    networks_of_clients = iter(networks)

    def client(*arguments: Any, **options: Any) -> writer_client.WriterClient:  # noqa: ANN401
        make = partial(writer_client.client.WriterClient, transport=next(networks_of_clients))
        return make(*arguments, **options)

    page = Session("docs/guides/writers.md", {}, WriterClient=client, datetime=datetime, UTC=UTC)
    page.run("timeout_ms=", "import Fenced", "on_excluded=")

    assert capsys.readouterr().out.splitlines() == [
        "host-b:1017 1357041600000 0 fenced",
        "late: timed_out 1357041600000 90",
        "what was written below 90 may be lost to readers",
    ]
    assert networks[0].notes[0]["timeout_ms"] == 5_400_000
