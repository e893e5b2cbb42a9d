"""Opens buckets of obstore, and translates their errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from noted_time.extras import require_extra
from noted_time.stores.places import STORE_CREDENTIALS
from noted_time.values import Rejected, Unreachable

RETRIED_TIMEOUTS = 2
"""No retry begins after this many timeouts."""

# the last three: the machine has no identity
_REFUSED_REQUEST = re.compile(
    r"status code: (4\d\d)|token request|/api/token|/security-credentials"
)


_ODD_KEY = re.compile(
    r'invalid path: (?:Error parsing )?Path "(.*?)"(?: contained|: Enc)', re.DOTALL
)


_ERROR_CODE = re.compile(r"<Code>([\w.]{1,80})</Code>")

ARCHIVED_CODES = {"InvalidObjectState", "BlobArchived"}
"""Codes of S3 and of Azure."""


class UnreadableKey(Rejected):
    """A list has a key that obstore cannot read as a path."""

    def __init__(self, name: str, key: str) -> None:
        super().__init__(f"{name} cannot be listed: remove or rename the object {key!r}")
        self.key = key


class Bucket:
    """A bucket. `process` has its credentials, and `extra` installs obstore."""

    def __init__(  # noqa: PLR0913, PLR0917 - two callers
        self,
        url: str,
        process: str,
        extra: str,
        timeouts: Mapping[str, timedelta],
        max_retries: int,
        name: str = "",
    ) -> None:
        """Send no request. Errors have the `name`, by default the URL."""
        with require_extra(name or url, extra):
            import obstore  # noqa: PLC0415 - an extra
            from obstore.store import from_url  # noqa: PLC0415 - likewise
        self._functions: Any = obstore
        self._url = url
        self._what = name
        self._process = process
        self.errors: Any = self._functions.exceptions
        # HTTP is used only if the environment has such an endpoint
        client_options: Any = {"allow_http": True, **timeouts}
        retry_config: Any = {
            "max_retries": max_retries,
            "retry_timeout": RETRIED_TIMEOUTS * timeouts["timeout"],
        }
        with self._translate_errors(name or url):
            self._store: Any = from_url(
                url, client_options=client_options, retry_config=retry_config
            )

    def call(
        self,
        function: str,
        path: str,
        *arguments: object,
        collect: Callable[[Any], Any] = lambda answer: answer,
        **options: object,
    ) -> Any:  # noqa: ANN401 - as the function has it
        """Call a function of obstore, and `collect` the rest of its answer.

        Raises `FileNotFoundError`, and obstore's `AlreadyExistsError` and `PreconditionError`.
        Other errors are `Rejected` or `Unreachable`.
        """
        with self._translate_errors(self._what or path):
            return collect(getattr(self._functions, function)(self._store, *arguments, **options))

    def read_page(self, name: str, pages: Iterator[Any]) -> Any:  # noqa: ANN401 - of obstore
        with self._translate_errors(name):
            return next(pages, None)

    def has_answered(self, key: str) -> bool:
        """Return whether the store itself says that a key does not exist or may not be read."""
        try:
            self._functions.get(self._store, key)
        except (FileNotFoundError, self.errors.PermissionDeniedError) as error:
            return "<Code>" in str(error)
        except self.errors.BaseError:
            pass
        return False

    @contextmanager
    def _translate_errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except (self.errors.AlreadyExistsError, self.errors.PreconditionError) as error:
            if _find_code(str(error)) in ARCHIVED_CODES:
                raise self._build_error(str(error), name) from None
            raise
        except self.errors.BaseError as error:
            # other lines may have credentials
            raise self._build_error(str(error), name) from None

    def _build_error(self, error: str, name: str) -> Rejected | Unreachable:
        odd_key = _ODD_KEY.search(error)
        if odd_key is not None:
            return UnreadableKey(name, odd_key[1])
        code = _find_code(error)
        if code in ARCHIVED_CODES:
            return Rejected(f"{name} is archived ({code}): restore it, or begin later")
        scheme, _, bucket = self._url.partition("://")
        first_line = error.partition("\n")[0].partition(": <")[0]
        refusal = _REFUSED_REQUEST.search(first_line)
        summary = first_line[:300]
        if code is not None:
            summary = f"{code}: {summary}"
        if refusal is None:
            if "No CA cert" in error:
                summary += ": set SSL_CERT_FILE, it has no CA certificates"
            return Unreachable(f"{name}: no answer: {summary}")
        if refusal[1] == "404":
            return Rejected(f"{name}: {bucket!r} does not exist at this endpoint: check both")
        fault = "needs credentials"
        if refusal[1]:
            fault = "may not be listed and read"
        return Rejected(
            f"{name} {fault} ({summary}): set {STORE_CREDENTIALS[scheme]} for {self._process}"
        )


def _find_code(error: str) -> str | None:
    match = _ERROR_CODE.search(error)
    return None if match is None else match[1]


def read_whole(answer: Any) -> tuple[bytes, Any]:  # noqa: ANN401 - of obstore
    return bytes(answer.bytes()), answer.meta
