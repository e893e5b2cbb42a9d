"""The systemd units of deploy/systemd."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from noted_time_cli.app import app
from tests.support.processes import ServeProcess

ROOT = Path(__file__).resolve().parents[2]
UNITS = ROOT / "deploy" / "systemd"
PAGE = ROOT / "docs" / "guides" / "deploy.md"
NAMES = sorted(each.name for each in UNITS.iterdir())
WORST = 20
"""Ten times the exposure that `systemd-analyze security` may find."""

WITHOUT = "tests.operations.without_new_code"

needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="needs systemd-analyze, of systemd"
)


def analyze(*words: str) -> tuple[int, str]:
    """Return the exit status and the output of `systemd-analyze`."""
    process = subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, check=False
    )
    return process.returncode, process.stdout + process.stderr


@needs_systemd
@pytest.mark.parametrize("name", NAMES)
def test_systemd_unit_exposure_is_low(name: str) -> None:
    """Systemd counts at most 2.0 of 10."""
    status, output = analyze(
        "security", "--offline=true", f"--threshold={WORST}", "--no-pager", str(UNITS / name)
    )

    assert status == 0, output[-2000:]


@needs_systemd
@pytest.mark.parametrize("name", NAMES)
def test_systemd_verifies_every_unit(name: str, tmp_path: Path) -> None:
    """Systemd also warns of unknown settings."""
    text = (UNITS / name).read_text()
    program = re.search(r"^ExecStart=(\S+)", text, re.MULTILINE)
    assert program is not None
    unit = tmp_path / name.replace("@.", "@flights.")
    unit.write_text(text.replace(program[1], sys.executable))

    assert analyze("verify", "--man=no", str(unit)) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_unit_starts_an_existing_command(name: str) -> None:
    """The page shows its file of variables."""
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((UNITS / name).read_text())
    program, *words = unit["Service"]["ExecStart"].split()
    command = [word for word in words if word[0] not in "$%"]

    result = CliRunner().invoke(app, [*command, "--help"])

    assert (Path(program).name, result.exit_code) == ("noted-time", 0)
    assert unit["Service"]["EnvironmentFile"].replace("%i", "flights") in PAGE.read_text()


@pytest.mark.acceptance
def test_controller_works_without_executable_memory(tmp_path: Path) -> None:
    """The units set MemoryDenyWriteExecute=, so no library may make code at run time.

    The kernel refuses it to the process and its children, in place of systemd's filter.
    """
    if subprocess.run([sys.executable, "-m", WITHOUT, "--version"], check=False).returncode:
        pytest.skip("this kernel is older than 6.3, and knows no PR_SET_MDWE")

    with ServeProcess(tmp_path, module=WITHOUT).ready() as process:
        process.make("flights")
        process.note("flights", 7, {"0": 3})
        lower = process.lower("flights")
        status, _ = process.stop()

    assert (lower, status) == (7, 0)
