"""Each run tries new examples of the properties, after the earlier failures."""

from pathlib import Path

from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase


def test_runs_add_examples_and_keep_failures(root: Path) -> None:
    """With the variable CI, Hypothesis would derive the same examples in each run."""
    now = settings()

    database = DirectoryBasedExampleDatabase(root / ".hypothesis" / "examples")
    assert (now.derandomize, now.database) == (False, database)
