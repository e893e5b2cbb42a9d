"""Zone data of an older release, as a system may have them."""

import pkgutil
import subprocess
import sys
from pathlib import Path

from tests.support.processes import environment

OLD_RELEASE = "2025b"

WITHOUT_PACKAGE = "import sys; sys.modules['tzdata'] = None; "
"""The begin of a program whose process lacks the package tzdata."""

RULES_OF_OLD_RELEASE = {"America/Vancouver": "America/Los_Angeles", "Europe/Berlin": "Europe/Paris"}
"""Zones of the old release, with zones of the package that have their rules until today.

Since November 2026, Vancouver no longer changes its clock, but Los Angeles does.
"""


def write_zones(directory: Path, first_line: str = f"# version {OLD_RELEASE}\n") -> Path:
    """Write zones of an older release, with the first line of its `tzdata.zi`."""
    for key, other in RULES_OF_OLD_RELEASE.items():
        rules = pkgutil.get_data("tzdata", f"zoneinfo/{other}")
        assert rules is not None
        file = directory / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(rules)
    if first_line:
        (directory / "tzdata.zi").write_text(first_line)
    return directory


def run_python(code: str, zones: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code in another process, whose system has the zone data of a directory."""
    command = [sys.executable, "-W", "error", "-c", code]
    variables_for_zones = environment(PYTHONTZPATH=str(zones), **variables)
    return subprocess.run(
        command, env=variables_for_zones, check=True, capture_output=True, text=True
    )
