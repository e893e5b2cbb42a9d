"""Each run tries new examples of the properties, after the earlier failures."""

from pathlib import Path

from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase


def test_runs_add_examples_and_keep_failures(root: Path) -> None:
    """Where CI is set, too: Hypothesis would then derive them from the test alone."""
    now = settings()

    kept = DirectoryBasedExampleDatabase(root / ".hypothesis" / "examples")
    assert (now.derandomize, now.database) == (False, kept)
