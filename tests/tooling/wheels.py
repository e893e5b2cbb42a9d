"""The project as pip installs it: its wheel, and the distributions that it needs."""

from collections.abc import Iterable
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.processes import run_python

ROOT = Path(__file__).resolve().parents[2]

PACKAGES = (
    "noted_time",
    "controller",
    "writer_client",
    "reader_client",
    "spark_integration",
    "noted_time_cli",
    "noted_time_extensions",
)
"""The top-level packages of the wheel; the migrations are in the controller."""

EXTENSIONS = sorted(plug.parent.name for plug in ROOT.glob("noted_time_extensions/*/plug.py"))


def build(directory: Path) -> Path:
    """Build the wheel into the directory and return it."""
    run_python("-m", "hatchling", "build", "-t", "wheel", "-d", directory).check_returncode()
    return next(directory.glob("*.whl"))


def install(wheel: Path, directory: Path) -> Path:
    """Install the wheel without its dependencies; return the command `noted-time`."""
    options = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check"]
    run_python("-m", "pip", "install", *options, "--target", directory, wheel).check_returncode()
    return directory / "bin" / "noted-time"


def link_needs(wheel: Path, directory: Path, extra: str = "") -> None:
    """Link to the distributions of this environment that the wheel needs."""
    with ZipFile(wheel) as files:
        name = next(each for each in files.namelist() if each.endswith("/METADATA"))
        declared = message_from_bytes(files.read(name)).get_all("Requires-Dist", [])
    directory.mkdir()
    for needed in _closure(declared, extra):
        found = distribution(needed)
        for top in {Path(each).parts[0] for each in found.files or ()} - {"..", "__pycache__"}:
            (directory / top).symlink_to(Path(str(found.locate_file(top))))


def _closure(declared: Iterable[str], extra: str) -> set[str]:
    """Return the names of all distributions that these requirements install."""
    found: set[tuple[str, frozenset[str]]] = set()
    waiting = [(Requirement(line), {extra}) for line in declared]
    while waiting:
        needed, extras = waiting.pop()
        applies = not needed.marker or any(needed.marker.evaluate({"extra": e}) for e in extras)
        one = (canonicalize_name(needed.name), frozenset(needed.extras))
        if applies and one not in found:
            found.add(one)
            below = distribution(needed.name).requires or ()
            waiting += [(Requirement(line), needed.extras or {""}) for line in below]
    return {name for name, _ in found}
