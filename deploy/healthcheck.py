"""Whether the container works, as its /healthz says.

The image's HEALTHCHECK. It asks the controller where NOTED_TIME_PORT and NOTED_TIME_TLS_CERT say
that it listens, and an observer or relay at NOTED_TIME_HEALTH_PORT.
"""

import os
import ssl
import sys
import urllib.request
from pathlib import Path


def main() -> int:
    """Return 0 if it works, and otherwise say why not."""
    serves = b"serve" in Path("/proc/1/cmdline").read_bytes().split(b"\0")
    default = {"NOTED_TIME_PORT": "7464"} if serves else {}
    port = (default | os.environ).get("NOTED_TIME_PORT" if serves else "NOTED_TIME_HEALTH_PORT")
    if port is None:
        return 0  # a container that runs, runs its only process
    secure = serves and bool(os.environ.get("NOTED_TIME_TLS_CERT"))
    url = f"{'https' if secure else 'http'}://127.0.0.1:{port}/healthz"
    context = ssl.create_default_context() if secure else None
    if context:  # its own certificate is for another name than 127.0.0.1
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    # what http_proxy names would ask its own 127.0.0.1
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    try:
        urllib.request.build_opener(*handlers).open(url, timeout=3).close()
    except OSError as error:
        sys.stderr.write(f"{url}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
