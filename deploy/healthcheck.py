"""Whether the container works: a controller answers /healthz; an observer or relay runs.

The image's HEALTHCHECK. It asks the controller where NOTED_TIME_PORT and NOTED_TIME_TLS_CERT say
that it listens.
"""

import os
import ssl
import sys
import urllib.request
from pathlib import Path


def main() -> int:
    """Return 0 if it works, and otherwise say why not."""
    if b"serve" not in Path("/proc/1/cmdline").read_bytes().split(b"\0"):
        return 0  # an observer or relay: a container that runs, runs its only process
    secure = bool(os.environ.get("NOTED_TIME_TLS_CERT"))
    port = os.environ.get("NOTED_TIME_PORT", "7464")
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
