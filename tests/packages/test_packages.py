"""The contents, metadata and installation of the packages that `./run release` publishes."""

import fnmatch
import re
import sys
import tarfile
from email import message_from_bytes
from email.message import Message
from hashlib import sha1
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.tooling.wheels import PACKAGES
from tools.release import building, maven, trials

ROOT = building.ROOT
CODE = {*PACKAGES, "migrations"}
"""The folders of the product in a clone."""


def read_metadata(wheel: Path) -> Message:
    """Return the metadata and, as its payload, the description."""
    with ZipFile(wheel) as files:
        (name,) = fnmatch.filter(files.namelist(), "*.dist-info/METADATA")
        return message_from_bytes(files.read(name))


def list_product_files() -> set[str]:
    """Return the files of the packages that are under version control."""
    words = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    product_files = set()
    for name in building.run_program(words).splitlines():
        folders = Path(name).parts
        if folders[0] in CODE and "tests" not in folders:
            product_files.add(name)
    return product_files


def test_index_accepts_metadata_and_description(tools: Path, distributions: list[Path]) -> None:
    """The README renders. A warning is a fault."""
    building.check(tools, distributions)

    assert [distribution.suffix for distribution in distributions] == [".whl", ".gz"]


def test_wheel_has_the_product_and_its_license(wheel: Path) -> None:
    """The wheel has the dashboard, and the migrations below the controller.

    It has no tests, examples or pages.
    """
    own_names = {
        "METADATA",
        "WHEEL",
        "entry_points.txt",
        "RECORD",
        "licenses/LICENSE",
        "licenses/NOTICE",
    }
    information = f"noted_time-{building.metadata()['version']}.dist-info"
    with ZipFile(wheel) as files:
        names = set(files.namelist())

    product = {re.sub("^migrations/", "controller/migrations/", f) for f in list_product_files()}
    assert names == product | {f"{information}/{name}" for name in own_names}


def test_sdist_has_what_the_wheel_is_built_from(distributions: list[Path]) -> None:
    (sdist,) = (file for file in distributions if file.name.endswith(".tar.gz"))
    texts = {"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "pyproject.toml"}
    texts |= {"PKG-INFO", ".gitignore"}
    with tarfile.open(sdist) as files:
        names = {file.name.partition("/")[2] for file in files if file.isfile()}

    assert names == list_product_files() | texts


def test_metadata_name_license_and_supported_python(wheel: Path) -> None:
    """The project does not have an address yet."""
    metadata = read_metadata(wheel)

    assert (metadata["License-Expression"], metadata.get_all("Project-URL")) == ("Apache-2.0", None)
    assert (metadata["Requires-Python"], metadata["Description-Content-Type"]) == (
        ">=3.11",
        "text/markdown",
    )


def test_wheel_works_in_an_empty_environment(tools: Path, wheel: Path, tmp_path: Path) -> None:
    """The command calls, the controller serves, and a note becomes a mark."""
    trials.try_wheel(tools, Path(sys.executable), wheel, ["cli", "controller"], tmp_path)


@pytest.mark.usefixtures("tools")
def test_first_pip_of_python_3_11_installs_a_repository(tmp_path: Path) -> None:
    """The install page has this command.

    Older versions of pip belong to unsupported Pythons.
    """
    python = str(tmp_path / "bin" / "python")
    building.run_program([sys.executable, "-m", "venv", str(tmp_path)])
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    building.run_program([*pip, f"msgspec=={version('msgspec')}"])
    building.run_program([*pip, "pip==22.3"])
    building.run_program([*pip, "--no-deps", f"noted-time[kafka] @ git+file://localhost{ROOT}"])

    used = building.run_program(
        [python, "-I", "-c", "import noted_time; print(noted_time.__file__)"]
    )
    assert Path(used.strip()).is_relative_to(tmp_path)


def test_interceptor_has_the_layout_of_maven(artifacts: Path) -> None:
    """The jar, its sources and pages and the POM have names by its coordinates, and checksums."""
    stem = f"noted-time-interceptor-{artifacts.name}"
    files = [f"{stem}{end}" for end in ("-javadoc.jar", "-sources.jar", ".jar", ".pom")]
    expected = {*files}
    for file in files:
        expected |= {f"{file}.{checksum}" for checksum in maven.CHECKSUMS}
    jar = artifacts / f"{stem}.jar"

    assert {artifact.name for artifact in artifacts.iterdir()} == expected
    checksum = (artifacts / f"{stem}.jar.sha1").read_text()
    assert checksum == sha1(jar.read_bytes(), usedforsecurity=False).hexdigest()


@pytest.mark.parametrize(
    ("end", "has"),
    [
        (".jar", "notedtime/NotedTimeInterceptor.class"),
        ("-sources.jar", "notedtime/NotedTimeInterceptor.java"),
        ("-javadoc.jar", "index.html"),
    ],
)
def test_each_jar_has_its_part_and_the_license(artifacts: Path, end: str, has: str) -> None:
    """The manifest has the version."""
    version = building.metadata()["version"]
    with ZipFile(artifacts / f"noted-time-interceptor-{artifacts.name}{end}") as files:
        names = set(files.namelist())
        manifest = files.read("META-INF/MANIFEST.MF").decode()

    assert {has, "META-INF/LICENSE"} - names == set()
    assert f"Implementation-Version: {version}\n" in manifest
