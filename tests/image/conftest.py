"""The image, built once for all tests from Debian's packages, without a registry of images."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.container import Image, Store
from tests.support.suites import find_programs

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "build" / "image"
PACKAGES = "python3,python3-venv,ca-certificates"
TOOLS = ("buildah", "mmdebstrap", "unshare")
MOUNTS = ("unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "none", "/mnt")


@pytest.fixture(scope="session")
def programs() -> Path:
    """Return the directory of the programs that check files."""
    return find_programs("image")


@pytest.fixture(scope="session")
def base() -> Path:
    """Return the archive of a small Debian with its own Python, kept in `build`."""
    find_programs("image")
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing or os.name == "nt" or os.geteuid() != 0:
        pytest.skip(f"an image is built by root, with {', '.join(TOOLS)}: no {missing or 'root'}")
    if subprocess.run(MOUNTS, capture_output=True, check=False).returncode:
        pytest.skip("an image is built where file systems can be mounted")
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "stable")
    archive = BASE / f"{release}.tar"
    if not archive.exists():
        BASE.mkdir(parents=True, exist_ok=True)
        unfinished_archive = archive.with_suffix(".unfinished.tar")
        words = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", release]
        result = subprocess.run(
            [*words, str(unfinished_archive)], capture_output=True, text=True, check=False
        )
        if result.returncode:  # as without a network
            pytest.skip(f"mmdebstrap could not make a Debian: {result.stderr[-300:]}")
        unfinished_archive.replace(archive)
    return archive


@pytest.fixture(scope="session")
def image(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """Return the image that deploy/Dockerfile makes of this clone."""
    with Store(tmp_path_factory.mktemp("images")) as store:
        store.add("base", base)
        yield store.build("noted-time", ROOT, "deploy/Dockerfile", BASE="localhost/base")
