"""What a release tries, what it stops for, and what it names."""

from pathlib import Path

import pytest

from noted_time import Rejected
from tests.packages import building, maven, pythons
from tests.packages.__main__ import chosen_pythons, require_commit

HERE = {release: Path(f"/opt/{release}") for release in ("3.11", "3.12", "3.13", "3.15")}


def test_a_python_that_is_not_here_stops_the_release() -> None:
    """The sentence says how to go on without it."""
    here = {"3.12": HERE["3.12"]}

    with pytest.raises(Rejected, match=r"Python 3\.11, 3\.13 is .*--without 3\.11 --without 3\.13"):
        chosen_pythons(here, frozenset())


def test_a_python_is_left_out_by_its_name() -> None:
    """Whether it is here or not."""
    here = {release: HERE[release] for release in ("3.11", "3.12")}

    assert chosen_pythons(here, frozenset({"3.12", "3.13", "java"})) == {"3.11": HERE["3.11"]}


def test_a_name_that_nothing_has_is_refused() -> None:
    """A slip would leave out nothing."""
    with pytest.raises(Rejected, match=r"--without 3\.21: name java, or one of 3\.11, 3\.12"):
        chosen_pythons(HERE, frozenset({"3.21"}))


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
