import ssl
from collections.abc import Iterator

import httpx
import pytest

from tests.operations.proxies import CERTIFICATE
from tests.support.processes import ServeProcess
from tools.trials.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def scrape(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The metrics of a running controller after one note and one mark."""
    with ServeProcess(tmp_path_factory.mktemp("operations")).ready() as process:
        process.make("s", mark_interval_ms=0)
        process.note("s", 5, {})
        yield httpx.get(f"{process.url}/metrics", trust_env=False).text


@pytest.fixture(scope="session")
def client() -> Iterator[httpx.Client]:
    """A client that trusts the certificate."""
    tls = ssl.create_default_context(cafile=CERTIFICATE / "certificate.pem")
    with httpx.Client(verify=tls, timeout=PATIENCE_S, trust_env=False) as opened_client:
        yield opened_client
