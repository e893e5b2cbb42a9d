"""The proxies of `deploy/proxies`, started as they are configured there."""

import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from demo.trials.ports import free_port
from demo.trials.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
CERTIFICATE = ROOT / "tests" / "access" / "certificate"
CONFIGURED = {"nginx": "noted-time.conf", "caddy": "Caddyfile"}
PACKAGES = {"nginx": "nginx-light", "caddy": "caddy"}

NGINX = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    {}
}}
"""
CADDY = re.compile(r"\A\{\n")


class Proxy:
    """A proxy in front of controllers on ports of this machine; leaving the block ends it."""

    def __init__(self, name: str, directory: Path, *controllers: int) -> None:
        """Start `nginx` or `caddy` in the directory, which has all its files."""
        self.port = free_port()
        program = shutil.which(name)
        assert program
        written = (ROOT / "deploy" / "proxies" / CONFIGURED[name]).read_text()
        written = self._here(written, controllers)
        if name == "nginx":
            written = NGINX.format(written)
            command = [program, "-p", str(directory), "-c", "config"]
        else:
            own = "{\n    admin off\n    auto_https disable_redirects\n    storage file_system .\n"
            written = CADDY.sub(own, written)
            command = [program, "run", "--config", "config", "--adapter", "caddyfile"]
        (directory / "config").write_text(written)
        self._log = directory / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=directory, env={"HOME": str(directory)}, stdout=log, stderr=log
            )

    def _here(self, config: str, controllers: tuple[int, ...]) -> str:
        """Return the configuration for the ports and the certificate of a test."""
        for number, port in enumerate(controllers, start=1):
            config = config.replace(f"controller-{number}.example:7464", f"127.0.0.1:{port}")
        for ours, theirs in {
            "listen 443": f"listen 127.0.0.1:{self.port}",
            "https://noted-time.example": f"https://localhost:{self.port}",
            "noted-time.example": "localhost",
            "/etc/noted-time/chain.pem": str(CERTIFICATE / "certificate.pem"),
            "/etc/noted-time/key.pem": str(CERTIFICATE / "key.pem"),
        }.items():
            config = config.replace(ours, theirs)
        assert "example" not in config
        return config

    @property
    def url(self) -> str:
        """The URL of the proxy."""
        return f"https://localhost:{self.port}"

    def ready(self) -> Self:
        """Wait until it listens; raises `AssertionError` with its log if it does not."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert self._process.poll() is None, self._log.read_text()
                assert time.monotonic() < deadline, self._log.read_text()
                time.sleep(0.02)
            else:
                return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
