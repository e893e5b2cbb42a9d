"""The example of CONTRIBUTING.md, done as it says."""

import re
from pathlib import Path

STEP = re.compile(r"^ *```diff\n *\+\+\+ (\S+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def steps(page: str) -> list[tuple[str, str, str]]:
    """Return the file of each change, the lines that it replaces, and those in their place."""
    found = []
    for path, lines in STEP.findall(page):
        marked = [line.removeprefix("   ") for line in lines.splitlines()]
        before, after = (
            "".join(f"{line[1:]}\n" for line in marked if line[0] in kept) for kept in (" -", " +")
        )
        found.append((path, before, after))
    return found


def test_the_example_changes_lines_that_are_there(root: Path) -> None:
    """Each once, so that the example can be followed."""
    found = steps((root / "CONTRIBUTING.md").read_text())

    assert [(root / path).read_text().count(before) for path, before, _ in found] == [1] * len(
        found
    )
    assert len(found) > 3
