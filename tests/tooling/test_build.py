from importlib import import_module
from pathlib import Path

import pytest

PRINTED = """\
===== FAILURES =====
_____ test_marks _____
    assert lower == 3
E   assert 2 == 3
tests/core/test_marks.py:7: AssertionError
_____ ERROR at setup of test_groups _____
E   OSError: address in use
===== short test summary info =====
"""


def test_failures_are_repeated_with_their_reasons(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(root / ".ci")
    build = import_module("build")

    assert list(build.list_failures(PRINTED)) == [
        "test_marks",
        "E   assert 2 == 3",
        "ERROR at setup of test_groups",
        "E   OSError: address in use",
    ]
    reasons = "\n".join(f"E   line {number}" for number in range(99))
    assert len(list(build.list_failures(f"___ test_long ___\n{reasons}"))) == 1 + build.MOST_REASONS
