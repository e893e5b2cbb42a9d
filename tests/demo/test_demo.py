from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes import python

pytestmark = [pytest.mark.acceptance, pytest.mark.spark, pytest.mark.timeout(900)]


def test_only_noted_time_and_the_delay_of_hindsight_lose_nothing(tmp_path: Path) -> None:
    """On the first day of 2013, as simulated, with a picture; nothing else is left behind."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = ["-m", "controller", "demo", "flights", "--days", "1", "--out", tmp_path]
    done = python(*words, TMPDIR=str(scratch))
    assert done.returncode == 0, done.stdout

    figures = json.loads((tmp_path / "flights.json").read_text())
    lossless = [each["method"] for each in figures["methods"] if not each["lost"]]
    assert (lossless[0], figures["as_simulated"]) == ("noted time", True)
    assert figures["own_watermark"] == "measured"
    assert (tmp_path / "flights.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in scratch.glob("noted-time-*")] == []
