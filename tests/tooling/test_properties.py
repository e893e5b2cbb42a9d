"""How hard the properties are tried: by profiles of Hypothesis."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

PROFILE = "--hypothesis-profile"
EXAMPLES = {None: 60, "deep": 10_000}


def test_properties_are_tried_as_often_as_the_profile_demands(
    request: pytest.FixtureRequest,
) -> None:
    """60 examples of each by default."""
    asked = request.config.getoption(PROFILE)

    assert settings.default is not None
    assert settings.default.max_examples == EXAMPLES[asked]


def test_the_deep_profile_tries_10_000_examples(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The test above holds for it too, in a process of its own."""
    name = test_properties_are_tried_as_often_as_the_profile_demands.__name__
    run = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", f"{PROFILE}=deep"]
    selected = [f"--basetemp={tmp_path / 'deep'}", f"{request.path}::{name}"]

    done = subprocess.run(
        [*run, *selected], cwd=request.config.rootpath, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout
