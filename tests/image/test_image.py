"""The image of deploy/Dockerfile: how large it is, and that a controller of it keeps its notes."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from demo.trials.ports import free_port
from noted_time_cli.terminal.output import UNANSWERED_STATUS
from tests.image.container import Container, Image

pytestmark = pytest.mark.acceptance

LARGEST_BYTES = 120_000_000

HEALTH_OF = ("nsenter", "--mount", "--pid", "--root", "--target")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """Return the directory of a volume."""
    directory = tmp_path / "volume"
    directory.mkdir(mode=0o700)
    return directory


def serving(image: Image, volume: Path, port: int) -> Container:
    """Start a controller that this machine alone can call, and wait for it."""
    told = {"NOTED_TIME_HOST": "127.0.0.1", "NOTED_TIME_PORT": str(port)}
    return image.container(volume, **told).ready()


def size_of(root: Path) -> int:
    """Return the number of bytes in files below a directory."""
    found = (each.lstat() for each in root.rglob("*"))
    return sum(each.st_size for each in found)


def test_image_adds_at_most_120_mb_to_its_base(image: Image) -> None:
    """Of what a controller, an observer and a relay need, and no Spark."""
    added = size_of(image.root) - size_of(image.store.mount_root("localhost/base"))

    print(f"the image adds {added / 1e6:.1f} MB to its base")  # noqa: T201 - shown by pytest -rP
    assert 0 < added <= LARGEST_BYTES


def test_killed_controller_keeps_its_notes(image: Image, volume: Path) -> None:
    """Started again over its volume; its root file system is read-only, and its user is not root.

    It is the only process of its container, and has the number that engines send signals to.
    """
    port = free_port()
    with serving(image, volume, port) as killed:
        url = f"http://127.0.0.1:{port}"
        killed._url = url
        killed.make("flights")
        killed.note("flights", 7, {"0": 3})
        before = killed.get("flights/marks")["marks"]
        owner = Path(f"/proc/{killed.first}").stat().st_uid
        killed.kill()

    with serving(image, volume, port) as again:
        again._url = url
        after = again.get("flights/marks")["marks"]

    assert ([mark["cut"] for mark in before], before, owner) == ([{"0": 3}], after, 10001)


def test_health_check_fails_for_a_silent_controller(image: Image, volume: Path) -> None:
    """It asks the controller; one that is stopped does not answer."""
    port = free_port()
    with serving(image, volume, port) as container:
        works = health(image, container, NOTED_TIME_PORT=str(port))
        fails = health(image, container, NOTED_TIME_PORT=str(free_port()))

    assert (works, fails) == (0, 1)


def health(image: Image, container: Container, **variables: str) -> int:
    """Return the exit status of the image's health check in a container."""
    kind, *words = image.config["Healthcheck"]["Test"]
    assert kind == "CMD"
    env = dict(line.split("=", 1) for line in image.config["Env"]) | variables
    done = subprocess.run([*HEALTH_OF, str(container.first), *words], env=env, check=False)
    return done.returncode


def test_image_refuses_to_serve_without_a_token(image: Image, volume: Path) -> None:
    """It listens on all addresses: without a token it refuses to start, and says what to do."""
    with image.container(volume) as container:
        status = container.process.wait(600)

    assert status != 0
    assert "noted-time token create" in container.text()


def test_tokens_are_made_in_the_same_volume(image: Image, volume: Path) -> None:
    """By a second container, before the controller starts."""
    asked = ("token", "create", "--scope", "admin")
    with image.container(volume, *asked) as container:
        status = container.process.wait(600)

    assert (status, (volume / "noted-time.db").exists()) == (0, True), container.text()


@pytest.mark.parametrize("words", [("observe", "kafka", "ingestion"), ("relay", "kafka")])
def test_observers_and_relays_are_in_the_image(
    image: Image, volume: Path, words: tuple[str, ...]
) -> None:
    """With the client of Kafka: they ask for the topic, where no broker is."""
    nowhere: dict[str, Any] = {"NOTED_TIME_URL": f"http://127.0.0.1:{free_port()}"}
    address = f"127.0.0.1:{free_port()}"
    with image.container(volume, *words, address, "flights", "--for", "0s", **nowhere) as container:
        status = container.process.wait(600)

    text = container.text()
    assert (status, "confluent-kafka" in text) == (UNANSWERED_STATUS, False), text
