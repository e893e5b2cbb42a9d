"""Opens buckets with credentials from the environment, and translates their errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any

from noted_time.extras import require_extra
from noted_time.stores.places import STORE_CREDENTIALS
from noted_time.values import Rejected, Unreachable

RETRIED_TIMEOUTS = 2
"""No retry begins after this many timeouts of a request."""

# the last three patterns: the machine has no identity
_REFUSED_REQUEST = re.compile(
    r"status code: (4\d\d)|token request|/api/token|/security-credentials"
)


class Bucket:
    """A bucket of `obstore`, for errors that name `what` instead of a key.

    `process` has the credentials in its environment. `extra` installs obstore.
    """

    def __init__(  # noqa: PLR0913 - keyword-only but for two
        self,
        url: str,
        what: str,
        *,
        process: str,
        extra: str,
        timeouts: Mapping[str, timedelta],
        max_retries: int,
    ) -> None:
        with require_extra(what, extra):
            stores, self.objects = map(import_module, ("obstore.store", "obstore"))
        self._url, self._what, self._process = url, what, process
        with self.translate_errors():
            self.store: Any = stores.from_url(
                url,
                # used only if the environment has such an endpoint
                client_options={"allow_http": True, **timeouts},
                retry_config={
                    "max_retries": max_retries,
                    "retry_timeout": RETRIED_TIMEOUTS * timeouts["timeout"],
                },
            )

    @contextmanager
    def translate_errors(self, what: str = "") -> Iterator[None]:
        try:
            yield
        except self.objects.exceptions.BaseError as error:
            # other lines may have credentials
            raise self._build_error(str(error), what or self._what) from None

    def _build_error(self, error: str, what: str) -> Rejected | Unreachable:
        scheme, _, bucket = self._url.partition("://")
        summary = error.partition("\n")[0].partition(": <")[0]
        refused = _REFUSED_REQUEST.search(summary)
        if refused is None:
            summary += ": set SSL_CERT_FILE, it has no CA certificates" * ("No CA cert" in error)
            return Unreachable(f"{what}: no answer: {summary:.300}")
        if refused[1] == "404":
            return Rejected(f"{what}: {bucket!r} does not exist at this endpoint: check both")
        why = "may not be listed and read" if refused[1] else "needs credentials"
        return Rejected(
            f"{what} {why} ({summary:.300}): set {STORE_CREDENTIALS[scheme]} for {self._process}"
        )
