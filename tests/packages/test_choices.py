"""What a release tries, what it stops for, and what it names."""

from pathlib import Path

import pytest

from noted_time import Rejected
from tests.packages import building, maven, pythons
from tests.packages.__main__ import require_commit


def test_a_release_is_of_a_commit() -> None:
    """A file that is not in it stops the release, unless it is only built."""
    require_commit([], may_differ=False)
    require_commit([" M run"], may_differ=True)
    with pytest.raises(Rejected, match="1 files differ from the last commit, such as run"):
        require_commit([" M run"], may_differ=False)


def test_other_bytes_are_named(tmp_path: Path) -> None:
    """So that one knows where to look for a date or a path."""
    for name, content in (("first", "a"), ("again", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.jar").write_text(content)

    with pytest.raises(Rejected, match=r"other bytes: x\.jar"):
        building.require_equal(tmp_path / "first", tmp_path / "again")


def test_the_pom_lacks_what_only_a_person_knows() -> None:
    """RELEASING.md names it, and so does each release."""
    page = (building.ROOT / "RELEASING.md").read_text()

    assert maven.missing() == ["url", "developers", "scm"]
    assert [each for each in maven.missing() if f"`{each}`" not in page] == []


def test_every_release_of_python_that_is_named_can_be_installed() -> None:
    """The classifiers begin with the oldest that is not refused."""
    assert pythons.supported()[0] == building.metadata()["requires-python"].removeprefix(">=")
