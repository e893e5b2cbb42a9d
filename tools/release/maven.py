"""The interceptor as Maven's repositories have it: jars and a POM, with checksums."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

from noted_time import Rejected
from tools.release.building import ROOT, digest, metadata, require_equal
from tools.trials import java

PROJECT = ROOT / "java"
SOURCES = PROJECT / "src" / "main" / "java"
POM = PROJECT / "pom.xml"
CHECKSUMS = ("md5", "sha1", "sha256", "sha512")
NAMESPACE = {"": "http://maven.apache.org/POM/4.0.0"}
CENTRAL = ("name", "description", "url", "licenses", "developers", "scm")
"""Elements that Maven Central requires of a POM, apart from the coordinates."""


def repository(scratch: Path) -> Path:
    """Return a directory with the artifacts in Maven's layout.

    Raises `Rejected` without a JDK, or if a second build has other bytes.
    """
    first = scratch / "maven"
    second_scratch = scratch / "maven-again"
    for directory in (first, second_scratch):
        place = directory / coordinates()
        place.mkdir(parents=True)
        _build(place)
    require_equal(first, second_scratch)
    return first


def coordinates() -> Path:
    """Return the path of this version: groupId/artifactId/version, as the POM has them.

    Maven sorts `.dev0` after the release; a version before it is a snapshot.
    """
    group = text("groupId")
    artifact = text("artifactId")
    version = re.sub(r"\.dev\d+$", "-SNAPSHOT", metadata()["version"])
    return Path(*group.split("."), artifact, version)


def text(element: str) -> str:
    """Return the text of an element of the POM."""
    return ET.parse(POM).findtext(element, "", NAMESPACE)  # noqa: S314 - our own


def missing() -> list[str]:
    """Return the elements that Maven Central demands and the POM does not have."""
    root = ET.parse(POM).getroot()  # noqa: S314 - our own
    return [element for element in CENTRAL if root.find(element, NAMESPACE) is None]


def _build(place: Path) -> None:
    stem = f"{text('artifactId')}-{place.name}"
    pom = POM.read_text().replace("@version@", place.name)
    (place / f"{stem}.pom").write_text(pom)
    sources = sorted(SOURCES.rglob("*.java"))
    java.pack(place / f"{stem}-sources.jar", SOURCES, sources)
    with TemporaryDirectory() as name:
        classes = Path(name, "classes")
        pages = Path(name, "pages")
        classes.mkdir()
        java.compile_into(classes, sources)
        java.pack(place / f"{stem}.jar", classes, sorted(classes.rglob("*.class")))
        java.run_tool(_javadoc(), "-quiet", "-notimestamp", "-Xdoclint:none", "-d", pages, *sources)
        files = sorted(file for file in pages.rglob("*") if file.is_file())
        java.pack(place / f"{stem}-javadoc.jar", pages, files)
    for file in sorted(place.iterdir()):
        for algorithm in CHECKSUMS:
            (place / f"{file.name}.{algorithm}").write_text(digest(file, algorithm))


def _javadoc() -> Path:
    javac = java.compiler()
    if javac is None:
        raise Rejected(java.MISSING)
    return Path(javac).resolve().with_name("javadoc")
