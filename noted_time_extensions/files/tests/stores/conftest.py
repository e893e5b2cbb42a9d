from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest
from pyspark.sql import SparkSession

from noted_time.stores import objects
from noted_time_extensions.files.tests.stores.proxy import Proxy
from tests.support.object_store import CERTIFICATES, SECRET
from tests.support.suites import find_programs
from tools.trials.s3 import serve_s3


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Give the port of an S3 server."""
    with serve_s3(
        find_programs("stores") / "python", tmp_path_factory.mktemp("s3") / "log"
    ) as port:
        yield port


@pytest.fixture(scope="session")
def proxy(s3_server: int) -> Iterator[Proxy]:
    """Give a proxy to the server, and put its address into the environment."""
    with Proxy(s3_server) as running, pytest.MonkeyPatch.context() as environment:
        variables = {
            "AWS_ACCESS_KEY_ID": "us",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": running.url,
            "SSL_CERT_FILE": str(CERTIFICATES),
        }
        for name, value in variables.items():
            environment.setenv(name, value)
        yield running


@pytest.fixture(scope="session")
def spark(proxy: Proxy, spark: SparkSession) -> SparkSession:
    """Return a session that knows the proxy."""
    assert proxy.url
    return spark


@pytest.fixture
def s3(proxy: Proxy) -> Iterator[Proxy]:
    """Give the proxy, and buckets that no other test has opened."""
    objects.open_bucket.cache_clear()
    yield proxy
    objects.open_bucket.cache_clear()


@pytest.fixture
def bucket(s3: Proxy) -> str:
    """Return the URL of a new bucket."""
    name = f"lake-{uuid4().hex}"
    httpx.put(f"{s3.url}/{name}").raise_for_status()
    s3.counts.clear()
    return f"s3://{name}"
