import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.replicas.served import Two, make, shared, stream_of
from tests.support.calls import HTTP
from tests.support.postgres import Server
from tests.support.processes import ServeProcess

PROXIES: dict[str, Any] = {
    **dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), "http://127.0.0.1:1"),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), ""),
}
"""Of the environment in which the replicas run: for everything, and they lead nowhere."""


@pytest.fixture(scope="module")
def two(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Two replicas that were started at once on a database with nothing in it, not even tables."""
    url, directory = server.make_database(), tmp_path_factory.mktemp("two")
    with (
        ServeProcess(directory, "--database", url, **PROXIES) as a,
        ServeProcess(directory, "--database", url, **PROXIES) as b,
    ):
        for each in (a, b):
            each.ready()
        shared(a, b)
        yield Two(a, b)


@pytest.fixture
def owner(two: Two) -> ServeProcess:
    """The replica that has the stream `name`."""
    return two.a


@pytest.fixture
def other(two: Two) -> ServeProcess:
    """The replica that has not."""
    return two.b


@pytest.fixture
def name(owner: ServeProcess, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a stream that marks every advance, removed afterwards."""
    made = stream_of(owner, re.sub(r"\W", "-", request.node.name)[:100])
    make(owner, made)
    yield made
    HTTP.delete(f"{owner.url}/v1/streams/{made}")
