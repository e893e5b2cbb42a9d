"""A real schema registry, downloaded once into the environment of the suite."""

import hashlib
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.suites import find_programs
from tools.trials.classes import java
from tools.trials.cluster import free_ports
from tools.trials.daemons import Daemon
from tools.trials.ports import LOOPBACK, listens
from tools.trials.waiting import wait_until

APICURIO = "io.apicurio:apicurio-registry-app:tar.gz:all:2.6.13.Final"
"""The last release for Java 17, with Confluent's protocol."""

SHA256 = "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba"


@pytest.fixture(scope="session")
def apicurio() -> Path:
    """Return the directory of the registry's program; without it the tests are skipped."""
    programs = find_programs("registry")
    home = programs.parent / "apicurio"
    archive = home / "registry.tar.gz"
    if not archive.exists():
        home.mkdir(exist_ok=True)
        part = archive.with_suffix(".part")
        words = [str(programs / "maven-artifact"), APICURIO, str(part)]
        process = subprocess.run(words, capture_output=True, text=True, timeout=500, check=False)
        if process.returncode:
            pytest.skip(f"Apicurio's registry could not be fetched: {process.stdout[-300:]}")
        assert hashlib.sha256(part.read_bytes()).hexdigest() == SHA256
        with tarfile.open(part) as content:
            content.extraction_filter = getattr(tarfile, "data_filter", None)  # not before 3.11.4
            content.extractall(home)  # noqa: S202 - by its hash
        part.replace(archive)
    return home


@pytest.fixture(scope="session")
def registry(apicurio: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of a registry without a schema."""
    port = free_ports(1)
    variables = {**os.environ, "QUARKUS_HTTP_PORT": str(port), "QUARKUS_HTTP_HOST": LOOPBACK}
    (jar,) = apicurio.glob("*-runner.jar")
    words = [java(), "-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(jar)]
    with Daemon(words, tmp_path_factory.mktemp("registry") / "log", variables) as server:
        wait_until(lambda: server.running() and listens(port))
        yield f"http://{LOOPBACK}:{port}/apis/ccompat/v7"
