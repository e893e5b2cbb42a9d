"""The event loops of coroutines: a server has uvloop where there is one."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Run coroutines on both loops, where what they do with a socket may be told apart."""
    return "asyncio", {"use_uvloop": request.param == "uvloop"}
