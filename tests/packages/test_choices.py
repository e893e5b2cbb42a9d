"""What a release tries, what it stops for, and what it names."""

from tests.packages import building, maven, pythons


def test_the_pom_lacks_what_only_a_person_knows() -> None:
    """The page on releasing names it, and so does each release."""
    page = (building.ROOT / "docs/explain/releasing.md").read_text()

    assert maven.missing() == ["url", "developers", "scm"]
    assert [each for each in maven.missing() if f"`{each}`" not in page] == []


def test_every_release_of_python_that_is_named_can_be_installed() -> None:
    """The classifiers begin with the oldest that is not refused."""
    assert pythons.supported()[0] == building.metadata()["requires-python"].removeprefix(">=")
