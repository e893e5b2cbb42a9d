import shutil
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from demo.trials.ports import free_port
from demo.trials.waiting import PATIENCE_S
from tests.operations.proxies import CERTIFICATE, PACKAGES, Proxy
from tests.support.processes import ServeProcess


@pytest.fixture(scope="module")
def scrape(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What a controller in a process of its own shows: one note, one mark."""
    with ServeProcess(tmp_path_factory.mktemp("operations")).ready() as process:
        httpx.put(f"{process.url}/v1/streams/s", json={"mark_interval_ms": 0}, trust_env=False)
        body = {"notes": [{"writer": "a", "time": 5}]}
        httpx.post(f"{process.url}/v1/streams/s/notes", json=body, trust_env=False)
        yield httpx.get(f"{process.url}/metrics", trust_env=False).text


@pytest.fixture(scope="session")
def client() -> Iterator[httpx.Client]:
    """A client that trusts the certificate."""
    tls = ssl.create_default_context(cafile=CERTIFICATE / "certificate.pem")
    with httpx.Client(verify=tls, timeout=PATIENCE_S, trust_env=False) as opened:
        yield opened


@pytest.fixture(scope="session")
def long_polls(
    client: httpx.Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Iterator[httpx.Response]]:
    """The answers through each proxy of polls that begin before the tests that take long."""
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor())
        served = stack.enter_context(ServeProcess(tmp_path_factory.mktemp("polled"))).ready()
        httpx.put(f"{served.url}/v1/streams/s", trust_env=False)
        urls = []
        for each in filter(shutil.which, PACKAGES):
            directory = tmp_path_factory.mktemp(each)
            proxy = stack.enter_context(Proxy(each, directory, served.port, free_port()))
            urls.append(f"{proxy.ready().url}/v1/streams/s/marks?wait_ms=30000")
        yield threads.map(client.get, urls)
