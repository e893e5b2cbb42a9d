"""Connects to Kafka, and explains why a connection fails."""

from __future__ import annotations

import logging
import re
import time as clocks
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from noted_time.kafka.config_function import resolve_config
from noted_time.values import NotedTimeError, Rejected, Unreachable

Client = TypeVar("Client")
Result = TypeVar("Result")

log = logging.getLogger("noted_time.kafka")

TOKEN_CALLBACK = "oauth_cb"  # noqa: S105 - its name

FATAL_ONLY = 2
"""Other errors are raised, and need not be on stderr."""

CONNECTION_SETTINGS = (
    "bootstrap.servers",
    "metadata.broker.list",
    "client.id",
    "client.dns.lookup",
    "log_level",
)
CONNECTION_PREFIXES = (
    "sasl.",
    "ssl.",
    "security.",
    "enable.s",
    "oauth",
    "https.",
    "broker.address.",
)

POLL_INTERVAL_S = 0.05

LOGIN_FAILED = KafkaError._AUTHENTICATION  # noqa: SLF001 - librdkafka's own codes begin so
TLS_FAILED = KafkaError._SSL  # noqa: SLF001 - likewise
BROKERS_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - likewise
NO_TOKEN = KafkaError.SASL_AUTHENTICATION_FAILED

ERROR_PHRASES = {
    LOGIN_FAILED: "refuses the login",
    TLS_FAILED: "and this client do not agree on TLS",
    KafkaError._RESOLVE: "",  # noqa: SLF001 - likewise
    KafkaError._TRANSPORT: "",  # noqa: SLF001 - likewise
}
"""The codes whose reasons are kept, and phrases for some of them."""

REASON_AFFIXES = re.compile(r"^[\w:/.\[\]-]+/[\w]+: |:? \(after \d+ms in state \w+.*$")


def select_connection(config: Mapping[str, Any]) -> dict[str, Any]:
    connection_settings = {
        setting: value
        for setting, value in config.items()
        if setting in CONNECTION_SETTINGS or setting.startswith(CONNECTION_PREFIXES)
    }
    return {"log_level": FATAL_ONLY, **connection_settings}


class TokenCalls:
    """An `oauth_cb` whose error is kept, because librdkafka does not report it."""

    def __init__(self, ask: Any) -> None:  # noqa: ANN401 - whatever the user gave
        self.ask = ask
        self.why = "it must return a token and its expiry in Unix seconds"

    def __call__(self, config: str) -> object:
        try:
            return self.ask(config)
        except Exception as error:
            self.why = repr(error)
            log.warning("%s gave no token: %s", TOKEN_CALLBACK, self.why)
            raise


def create_client(kind: Callable[[dict[str, Any]], Client], config: Mapping[str, Any]) -> Client:
    settings = dict(config)
    tokens = TokenCalls(config.get(TOKEN_CALLBACK))
    if callable(tokens.ask):
        settings[TOKEN_CALLBACK] = tokens
    try:
        return kind(settings)
    except (KafkaException, TypeError, ValueError) as error:
        if isinstance(error, KafkaException) and error.args[0].code() == NO_TOKEN:
            raise Unreachable(f"{TOKEN_CALLBACK} gave no token: {tokens.why}") from error
        raise Rejected(f"Kafka's client refuses its configuration: {error}") from error


class Cluster:
    """Waits for the calls of one client, and explains failed connections.

    librdkafka retries all failures, and its calls report only a timeout. A wrong password or
    certificate raises `Rejected`, or once the cluster has answered, `Unreachable`.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        config = resolve_config(config)
        self.servers = config.get("bootstrap.servers", config.get("metadata.broker.list", ""))
        if not self.servers:
            raise Rejected("the Kafka configuration has no bootstrap.servers")
        self.settings: Mapping[str, Any] = select_connection(config)
        self._has_answered = False
        self.connect()

    def connect(self) -> None:
        self._errors: dict[int, KafkaError] = {}
        settings = {**self.settings, "error_cb": self._record_error}
        self.admin = create_client(AdminClient, settings)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        self.settings = {**self.settings, "sasl.username": username, "sasl.password": password}
        self.admin.set_sasl_credentials(username, password)

    def wait_for(self, future: Future[Result], timeout_s: float) -> Result:
        until = clocks.monotonic() + timeout_s
        self._errors.clear()
        while not future.done() and clocks.monotonic() < until:
            wait([future], POLL_INTERVAL_S)
            self.admin.poll(0)
            if BROKERS_DOWN in self._errors and not self._has_answered:
                for code in (LOGIN_FAILED, TLS_FAILED):
                    if code in self._errors:
                        raise Rejected(self._describe_error(code))
        try:
            result = future.result(0)
        except TimeoutError as error:
            raise self.build_unreachable() from error
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT:  # noqa: SLF001 - likewise
                raise self.build_unreachable() from error
            raise
        self._has_answered = True
        return result

    def build_unreachable(self) -> NotedTimeError:
        code_seen = next((code for code in ERROR_PHRASES if code in self._errors), None)
        return Unreachable(self._describe_error(code_seen))

    def _record_error(self, error: KafkaError) -> None:
        code = error.code()
        if code in ERROR_PHRASES or code == BROKERS_DOWN:
            known_error = self._errors.get(code, error)
            self._errors[code] = max(
                known_error, error, key=lambda kept_error: len(kept_error.str())
            )

    def _describe_error(self, code: int | None) -> str:
        reason = f"no Kafka broker answers at {self.servers}"
        if code is not None:
            phrase = ERROR_PHRASES[code]
            if phrase:
                summary = f"Kafka at {self.servers} {phrase}"
            else:
                summary = reason
            return f"{summary}: {REASON_AFFIXES.sub('', self._errors[code].str())}"
        protocol = str(self.settings.get("security.protocol", "plaintext"))
        if BROKERS_DOWN in self._errors and protocol.lower().endswith("plaintext"):
            return f"{reason}: it hangs up; if the broker wants TLS, set security.protocol"
        return reason
