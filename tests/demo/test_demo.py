from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes import python

pytestmark = [pytest.mark.acceptance, pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]


def test_only_noted_time_and_the_delay_of_hindsight_lose_nothing(finished: Path) -> None:
    """On the first day of 2013, as simulated, with a picture; nothing else is left behind."""
    figures = json.loads((finished / "flights.json").read_text())

    lossless = [each["method"] for each in figures["methods"] if not each["lost"]]
    assert (lossless[0], figures["as_simulated"]) == ("noted time", True)
    assert figures["own_watermark"] == "measured"
    assert (finished / "flights.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in (finished / "scratch").glob("noted-time-*")] == []


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a demo that ran to its end."""
    directory = tmp_path_factory.mktemp("demo")
    (directory / "scratch").mkdir()
    words = ["-m", "controller", "demo", "flights", "--days", "1", "--out", directory]
    done = python(*words, TMPDIR=str(directory / "scratch"))
    assert done.returncode == 0, done.stdout
    return directory
