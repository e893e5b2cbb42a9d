"""The image of deploy/Dockerfile in a real container: its size, its controller and its commands."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from noted_time_cli.terminal.output import UNANSWERED_STATUS
from tests.image.container import Container, Image
from tools.trials.ports import free_port

pytestmark = pytest.mark.acceptance

LARGEST_BYTES = 120_000_000

ENTER_CONTAINER = ("nsenter", "--mount", "--pid", "--root", "--target")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """Return the directory of a volume."""
    directory = tmp_path / "volume"
    directory.mkdir(mode=0o700)
    return directory


def count_bytes(root: Path) -> int:
    """Return the size of all files below a directory."""
    entries_found = (path.lstat() for path in root.rglob("*"))
    return sum(status.st_size for status in entries_found)


def test_image_adds_at_most_120_mb_to_its_base(image: Image) -> None:
    """It contains a controller, an observer and a relay, but no Spark."""
    added_bytes = count_bytes(image.root) - count_bytes(image.store.mount_root("localhost/base"))

    print(f"the image adds {added_bytes / 1e6:.1f} MB to its base")  # noqa: T201 - shown by pytest -rP
    assert 0 < added_bytes <= LARGEST_BYTES


def test_killed_controller_keeps_its_notes(image: Image, volume: Path) -> None:
    """The second container has the same volume, and the health check sees the first.

    The root file system is read-only, and the user is not root. An engine sends its signals to
    process 1, which is the controller.
    """
    port = free_port()
    variables = {"NOTED_TIME_HOST": "127.0.0.1", "NOTED_TIME_PORT": str(port)}
    with image.container(volume, **variables).ready() as killed_container:
        killed_container._url = f"http://127.0.0.1:{port}"
        killed_container.make("flights")
        killed_container.note("flights", 7, {"0": 3})
        before = killed_container.get("flights/marks")["marks"]
        health = [
            check_health(image, killed_container, port_asked) for port_asked in (port, free_port())
        ]
        owner = Path(f"/proc/{killed_container.first}").stat().st_uid
        killed_container.kill()

    with image.container(volume, **variables).ready() as second_container:
        second_container._url = killed_container.url
        after = second_container.get("flights/marks")["marks"]

    assert ([mark["cut"] for mark in before], before, owner) == ([{"0": 3}], after, 10001)
    assert health == [0, 1]


def check_health(image: Image, container: Container, port: int) -> int:
    """Return the exit status of the image's health check in a container."""
    kind, *words = image.config["Healthcheck"]["Test"]
    assert kind == "CMD"
    variables = dict(line.split("=", 1) for line in image.config["Env"])
    variables["NOTED_TIME_PORT"] = str(port)
    process = subprocess.run(
        [*ENTER_CONTAINER, str(container.first), *words], env=variables, check=False
    )
    return process.returncode


def test_image_refuses_to_serve_without_a_token(image: Image, volume: Path) -> None:
    """It listens on all addresses, so it refuses to start and names the remedy."""
    with image.container(volume) as container:
        status = container.process.wait(600)

    assert status != 0
    assert "noted-time token create" in container.text()


@pytest.mark.parametrize("words", [("observe", "kafka", "ingestion"), ("relay", "kafka")])
def test_observers_and_relays_are_in_the_image(
    image: Image, volume: Path, words: tuple[str, ...]
) -> None:
    """They have the Kafka client and look for the topic, at an address without a broker."""
    nowhere: dict[str, Any] = {"NOTED_TIME_URL": f"http://127.0.0.1:{free_port()}"}
    address = f"127.0.0.1:{free_port()}"
    with image.container(volume, *words, address, "flights", "--for", "0s", **nowhere) as container:
        status = container.process.wait(600)

    text = container.text()
    assert (status, "confluent-kafka" in text) == (UNANSWERED_STATUS, False), text
