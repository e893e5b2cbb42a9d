"""The configurations of `deploy/proxies`, in front of two controllers, one of them down."""

import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import httpx
import pytest

from noted_time.client import OWNER_HEADER, REQUEST_HEADER
from tests.operations.proxies import PACKAGES, Proxy
from tests.support.loopback import Loopback, give
from tests.support.processes import ServeProcess
from tools.trials.ports import free_port

pytestmark = pytest.mark.acceptance

MIB = 1024 * 1024


@pytest.fixture(scope="module", params=PACKAGES)
def name(request: pytest.FixtureRequest) -> str:
    """Each proxy that is installed."""
    tool: str = request.param
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool}: apt install {PACKAGES[tool]}")
    return tool


@pytest.fixture(scope="module")
def stream(name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a stream behind a proxy for a controller and for a port without a listener."""
    directory = tmp_path_factory.mktemp(name)
    with ServeProcess(directory).ready() as served:
        httpx.put(f"{served.url}/v1/streams/s", json={"mark_interval_ms": 0}, trust_env=False)
        with Proxy(name, tmp_path_factory.mktemp(name), served.port, free_port()) as proxy:
            yield f"{proxy.ready().url}/v1/streams/s"


def test_notes_and_marks_pass_the_proxy(client: httpx.Client, stream: str) -> None:
    """The proxy skips the controller that is down."""
    statuses = []
    for time in range(1, 21):
        body = {"notes": [{"writer": "a", "time": time, "position": {"0": time}}]}
        statuses.append(client.post(f"{stream}/notes", json=body).status_code)
    last = client.get(f"{stream}/marks", params={"after": 19}).json()["marks"]

    assert (statuses, [mark["lower"] for mark in last]) == ([200] * 20, [20])


@pytest.mark.parametrize(("size", "status"), [(MIB, 200), (MIB + 1, 413), (8 * MIB, 413)])
def test_body_over_the_limit_is_refused(
    client: httpx.Client, stream: str, size: int, status: int
) -> None:
    """The limit of each proxy is at least the controller's."""
    body = b'{"notes": [{"writer": "b"}]}'.ljust(size)

    assert client.post(f"{stream}/notes", content=body).status_code == status


def test_headers_over_the_limit_are_refused(client: httpx.Client, stream: str) -> None:
    """They have 100 KiB; each proxy refuses them with its own status."""
    answer = client.get(stream, headers={f"x-{number}": "x" * 4000 for number in range(25)})

    assert answer.status_code in {400, 431, 494}


OWNER = "http://controller-2.example:7464"
REQUEST_ID = "00f1e2d3c4b5a697"


def name_owner(request: BaseHTTPRequestHandler) -> None:
    """Name another controller as the stream's owner, and return the headers that came."""
    came = {f"x-{name}": request.headers[name] for name in ("host", "authorization")}
    came[REQUEST_HEADER] = request.headers[REQUEST_HEADER]
    give(request, 200, b"", {OWNER_HEADER: OWNER, **came})


def test_headers_pass_in_both_directions(
    client: httpx.Client, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The request has the token, the host name and its id; the answer has the owner and the id."""
    sent_headers = {"Authorization": "Bearer nt_1", "Noted-Request": REQUEST_ID}
    with Loopback(name_owner) as controller:
        port = int(controller.url.rpartition(":")[2])
        with Proxy(name, tmp_path_factory.mktemp(name), port, port) as proxy:
            answer = client.get(proxy.ready().url, headers=sent_headers)

    passed_headers = (
        answer.headers[OWNER_HEADER],
        answer.headers["x-authorization"],
        answer.headers["x-host"],
    )
    assert passed_headers == (OWNER, "Bearer nt_1", f"localhost:{proxy.port}")
    assert answer.headers[REQUEST_HEADER] == REQUEST_ID


def test_a_long_poll_waits_its_whole_time(client: httpx.Client, stream: str) -> None:
    """A controller waits for 30 seconds at most."""
    client.put(f"{stream}-without-marks")
    answer = client.get(f"{stream}-without-marks/marks", params={"wait_ms": 30_000})

    assert (answer.status_code, answer.json()["marks"]) == (200, [])
    assert answer.elapsed.total_seconds() >= 30
