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
        name = next(file_name for file_name in files.namelist() if file_name.endswith("/METADATA"))
        requirements = message_from_bytes(files.read(name)).get_all("Requires-Dist", [])
    directory.mkdir()
    for requirement_name in _closure(requirements, extra):
        package_distribution = distribution(requirement_name)
        tops = {Path(path).parts[0] for path in package_distribution.files or ()}
        for top in tops - {"..", "__pycache__"}:
            (directory / top).symlink_to(Path(str(package_distribution.locate_file(top))))


def _closure(requirements: Iterable[str], extra: str) -> set[str]:
    """Return the names of all distributions that these requirements install."""
    closure: set[tuple[str, frozenset[str]]] = set()
    waiting = [(Requirement(line), {extra}) for line in requirements]
    while waiting:
        requirement, extras = waiting.pop()
        applies = not requirement.marker or any(
            requirement.marker.evaluate({"extra": e}) for e in extras
        )
        package = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if applies and package not in closure:
            closure.add(package)
            requirements_below = distribution(requirement.name).requires or ()
            waiting += [
                (Requirement(line), requirement.extras or {""}) for line in requirements_below
            ]
    return {name for name, _ in closure}
