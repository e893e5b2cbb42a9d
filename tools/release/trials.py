"""The built wheel, installed with an extra into an environment that has nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from tools.release.building import run_program

SMOKE = Path(__file__).with_name("smoke.py")


def try_wheel(tools: Path, python: Path, wheel: Path, extras: Sequence[str], scratch: Path) -> None:
    """Install a wheel with extras for a Python, and use each extra.

    The environment is removed; raises `Rejected` with the output of pip or the program.
    """
    home = scratch / "trial"
    run_program([str(python), "-m", "venv", "--clear", "--without-pip", str(home)])
    own_python = home / "bin" / "python"
    named_wheel = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    pip = [
        str(tools / "python"),
        "-m",
        "pip",
        "--python",
        str(own_python),
        "--quiet",
        "install",
        named_wheel,
    ]
    (home / "tmp").mkdir()  # as /tmp may be too small for PySpark
    try:
        run_program(pip, {"TMPDIR": str(home / "tmp"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
        for extra in extras or ["none"]:
            run_program([str(own_python), "-I", str(SMOKE), extra, str(wheel)])
    finally:
        shutil.rmtree(home)
