"""Power cuts of a controller on SQLite."""

from pathlib import Path

import pytest

from tests.support.power import Disk
from tests.support.power_store import NOTES, find_lost, note_until_kill

pytestmark = pytest.mark.acceptance


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk.new(tmp_path)


def test_acknowledged_notes_survive_power_cut(disk: Disk, tmp_path: Path) -> None:
    """The power is cut after each call that syncs a file."""
    answers = note_until_kill(disk, disk.variables)

    cuts = [(cut, torn) for cut in disk.cuts() for torn in (False, True)]
    assert len(cuts) > 2 * NOTES
    losses = [find_lost(cut, answers, tmp_path / "cut", torn=torn) for cut, torn in cuts]
    assert [loss for loss in losses if loss] == []
