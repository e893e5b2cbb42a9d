"""Images built by buildah, and containers of them, without a container engine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from tools.trials.calls import Calls
from tools.trials.waiting import PATIENCE_S, wait_until

MACHINE_FILES = ("/etc/ssl/certs", "/etc/pip.conf")
"""How this machine reaches its package index; a build needs the same."""

UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
CONTAINER_SCRIPT = """
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount --bind "$2" "$1$3"
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
user=$4 root=$1
shift 4
exec chroot --userspec="$user" "$root" env --ignore-environment "$@"
"""
"""A read-only root file system, a volume and a user, as of `docker run --read-only`."""


class Store:
    """The images of a directory; leaving the block removes them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        places = ["--root", str(directory / "root"), "--runroot", str(directory / "run")]
        self._words = ["buildah", *places, "--storage-driver", "vfs"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.buildah("rm", "--all")
        shutil.rmtree(self._directory)

    def buildah(self, *arguments: str) -> str:
        """Run a command of buildah and return its output."""
        process = subprocess.run(
            [*self._words, *arguments], capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-4000:]
        return process.stdout.strip()

    def add(self, name: str, archive: Path) -> None:
        """Make an image from the files of an archive."""
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, str(archive), "/")
        self.buildah("commit", "--format", "docker", "--quiet", container, f"localhost/{name}")
        self.buildah("rm", container)

    def build(self, name: str, clone: Path, file: str, **arguments: str) -> Image:
        """Build an image of the clone, from images of this store alone."""
        build_arguments = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        shared_volumes = [
            f"--volume={path}:{path}:ro" for path in MACHINE_FILES if Path(path).exists()
        ]
        options = [
            "--format",
            "docker",
            "--isolation",
            "chroot",
            "--pull-never",
            *build_arguments,
            *shared_volumes,
        ]
        self.buildah("build", *options, "--file", str(clone / file), "--tag", name, str(clone))
        return Image(self, f"localhost/{name}")

    def mount_root(self, image: str) -> Path:
        """Return the root file system of a new container."""
        return Path(self.buildah("mount", self.buildah("from", "--pull-never", image)))


@dataclass(frozen=True)
class Image:
    """An image of a store."""

    store: Store
    name: str

    @cached_property
    def config(self) -> dict[str, Any]:
        """The image's settings for its containers."""
        inspection = json.loads(self.store.buildah("inspect", "--type", "image", self.name))
        return dict(inspection["Docker"]["config"])

    @cached_property
    def root(self) -> Path:
        """A root file system. Containers share it, because none can write to it."""
        return self.store.mount_root(self.name)

    def container(self, volume: Path, *words: str, **variables: str) -> Container:
        """Start a container with a command, by default the image's own."""
        return Container(self, volume, words or self.config["Cmd"], variables)


class Container(Calls):
    """A container with a read-only root; leaving the block kills it."""

    def __init__(
        self, image: Image, volume: Path, words: Sequence[str], variables: dict[str, str]
    ) -> None:
        super().__init__("")
        config = image.config
        (place,) = config["Volumes"]
        user, _, _ = config["User"].partition(":")
        shutil.chown(volume, int(user), int(user))
        variables_given = [
            *config["Env"],
            *(f"{name}={value}" for name, value in variables.items()),
        ]
        run = ["env", "--chdir", config["WorkingDir"], *config["Entrypoint"], *words]
        container_command = [
            "sh",
            "-euc",
            CONTAINER_SCRIPT,
            "sh",
            str(image.root),
            str(volume),
            place,
        ]
        self.log_file = volume.with_name(f"{time.monotonic_ns()}.log")
        with self.log_file.open("wb") as log:
            command = [*UNSHARE, *container_command, config["User"], *variables_given, *run]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def text(self) -> str:
        """Return the container's output."""
        return self.log_file.read_text()

    def ready(self) -> Self:
        """Wait until its controller serves."""
        wait_until(lambda: '"serving"' in self.text() or self.process.poll() is not None)
        assert self.process.poll() is None, self.text()
        return self

    @property
    def first(self) -> int:
        """The id of the container's process 1, or 0 once it has ended."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(children.read_text() or 0)

    def kill(self) -> None:
        """Send SIGKILL, as `docker kill` does, and wait for the end."""
        if self.process.poll() is None and (first := self.first):
            os.kill(first, signal.SIGKILL)
        self.process.wait(PATIENCE_S)
