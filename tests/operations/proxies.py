"""The proxies of `deploy/proxies`, started as they are configured there."""

import re
import shutil
from pathlib import Path
from typing import Self

from tools.trials.daemons import Daemon
from tools.trials.ports import free_port, listens
from tools.trials.waiting import wait_until

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
OF_CADDY = """{{
    admin off
    auto_https disable_redirects
    storage file_system {}
"""


class Proxy(Daemon):
    """A proxy in front of controllers on ports of this machine; leaving the block ends it."""

    def __init__(self, name: str, directory: Path, *controllers: int) -> None:
        """Start `nginx` or `caddy`, which keeps all its files in the directory."""
        self.port = free_port()
        program = shutil.which(name)
        config = directory / "config"
        assert program
        text = (ROOT / "deploy" / "proxies" / CONFIGURED[name]).read_text()
        text = self._here(text, controllers)
        if name == "nginx":
            text = NGINX.format(text)
            command = [program, "-p", str(directory), "-c", str(config)]
        else:
            text = CADDY.sub(OF_CADDY.format(directory), text)
            command = [program, "run", "--config", str(config), "--adapter", "caddyfile"]
        config.write_text(text)
        super().__init__(command, directory / "log", {"HOME": str(directory)})

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
        """Wait until it listens; raises `AssertionError` with its log if it has ended."""
        wait_until(lambda: self.running() and listens(self.port))
        return self
