"""The health check of the image, deploy/healthcheck.py."""

import runpy
from pathlib import Path

import pytest

from tests.support.processes import ROOT, ServeProcess
from tools.trials.ports import free_port

CHECK = ROOT / "deploy" / "healthcheck.py"


def test_health_check_bypasses_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`http_proxy` is for addresses outside the container."""
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"noted-time\0serve\0")  # of process 1
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    main = runpy.run_path(str(CHECK))["main"]

    process = ServeProcess(tmp_path).ready()
    with process:
        monkeypatch.setenv("NOTED_TIME_PORT", str(process.port))
        healthy = main()

    assert (healthy, main()) == (0, 1)


def test_health_check_calls_the_observers_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a port, a container that runs is healthy."""
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"noted-time\0observe\0")
    main = runpy.run_path(str(CHECK))["main"]
    without = main()
    monkeypatch.setenv("NOTED_TIME_HEALTH_PORT", str(free_port()))

    assert (without, main()) == (0, 1)
