from collections.abc import Iterator

import httpx
import pytest

from tests.support.processes import ServeProcess


@pytest.fixture(scope="module")
def scrape(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What a controller in a process of its own shows: one note, one mark."""
    with ServeProcess(tmp_path_factory.mktemp("operations")).ready() as process:
        httpx.put(f"{process.url}/v1/streams/s", json={"mark_interval_ms": 0}, trust_env=False)
        body = {"notes": [{"writer": "a", "time": 5}]}
        httpx.post(f"{process.url}/v1/streams/s/notes", json=body, trust_env=False)
        yield httpx.get(f"{process.url}/metrics", trust_env=False).text
