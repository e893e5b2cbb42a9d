"""The project, its chart, its provider and its pages have one version."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import noted_time

RELEASES = re.compile(r"^## \[(\d+\.\d+\.\d+)\]", re.MULTILINE)
IMAGES = re.compile(r"noted-time:(\d+\.[\w.]*\w)")
WHEELS = re.compile(r"noted_time-(\d[\w.]*)-py3")


def read_project(project: Path) -> dict[str, str]:
    """Return the project's table of a `pyproject.toml`."""
    table: dict[str, str] = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    return table


def test_version_differs_from_the_last_release(root: Path) -> None:
    """A wheel of later code must not have the name of a release."""
    released_versions = RELEASES.findall((root / "CHANGELOG.md").read_text())

    assert read_project(root)["version"] not in released_versions
    assert version("noted-time") == noted_time.__version__ == read_project(root)["version"]


def test_the_chart_names_the_version_of_its_image(root: Path) -> None:
    """Helm lists it with each release. Its own version is written as Helm requires, by SemVer."""
    chart = (root / "deploy" / "chart" / "Chart.yaml").read_text()
    ours = read_project(root)["version"]

    assert f"\nappVersion: {ours}\n" in chart
    assert f"\nversion: {ours.replace('.dev', '-dev')}\n" in chart


def test_pages_and_chart_name_the_image_of_this_version(root: Path) -> None:
    """Users build it from what they have."""
    versions = set()
    for page in [*root.glob("docs/**/*.md"), *root.glob("deploy/**/*.yaml")]:
        versions.update(IMAGES.findall(page.read_text("utf-8")))

    assert versions == {read_project(root)["version"]}


def test_airflow_provider_has_the_same_version(root: Path) -> None:
    """It also requires this version of the project or a later one."""
    ours = read_project(root)["version"]
    provider = read_project(root / "integrations" / "airflow")

    assert provider["version"] == ours
    assert f"noted-time>={ours}" in provider["dependencies"]


def test_pages_install_the_provider_with_the_project(root: Path) -> None:
    """With the bare name, pip would install another package of that name."""
    pages = [*root.glob("docs/**/*.md"), *root.glob("integrations/*/README.md")]
    commands = set()
    for page in pages:
        lines = re.findall(r"pip install[^`\n]*", page.read_text("utf-8"))
        commands |= {line for line in lines if "integrations/" in line}

    assert commands == {"pip install . ./integrations/airflow"}


def test_pages_name_the_wheel_of_this_version(root: Path) -> None:
    """Their commands can be copied; the page on releasing leaves the version open."""
    versions = set()
    for page in root.glob("docs/**/*.md"):
        versions.update(WHEELS.findall(page.read_text("utf-8")))

    assert versions == {read_project(root)["version"]}
