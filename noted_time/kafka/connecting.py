"""How any part connects to Kafka, and why it does not."""

from __future__ import annotations

import logging
import re
import time as clocks
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from noted_time.kafka.named import called
from noted_time.values import NotedTimeError, Rejected, Unreachable

Client = TypeVar("Client")
Result = TypeVar("Result")

log = logging.getLogger("noted_time.kafka")

TOKEN_OF = "oauth_cb"  # noqa: S105 - its name
"""The setting with the function that returns a token, and when that expires in Unix seconds."""

FATAL_ONLY = 2
"""The syslog level from which librdkafka writes to stderr: what fails is raised as an error."""

NAMED = ("bootstrap.servers", "metadata.broker.list", "client.id", "client.dns.lookup", "log_level")
BEGUN = ("sasl.", "ssl.", "security.", "enable.s", "oauth", "https.", "broker.address.")
"""The settings of a connection, by name and by how their names begin."""

LOOK_S = 0.05
"""How often it is looked whether a call has an answer, or its connection was refused."""

LOGIN = KafkaError._AUTHENTICATION  # noqa: SLF001 - librdkafka's own codes begin so
TLS = KafkaError._SSL  # noqa: SLF001 - likewise
AWAY = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - likewise
NO_TOKEN = KafkaError.SASL_AUTHENTICATION_FAILED
"""What confluent-kafka raises if an `oauth_cb` gives no first token."""

SAID = {
    LOGIN: "refuses the login",
    TLS: "and this client do not agree on TLS",
    KafkaError._RESOLVE: "",  # noqa: SLF001 - likewise
    KafkaError._TRANSPORT: "",  # noqa: SLF001 - likewise
}
"""The reasons that are kept, and what is said of those that no wait resolves."""

AROUND = re.compile(r"^[\w:/.\[\]-]+/[\w]+: |:? \(after \d+ms in state \w+.*$")
"""What librdkafka puts around a reason: which of its connections, and in which state it was."""


def connection(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of any client of librdkafka that concern its connection."""
    own = {k: v for k, v in config.items() if k in NAMED or k.startswith(BEGUN)}
    return {"log_level": FATAL_ONLY, **own}


class TokenCalls:
    """Calls an `oauth_cb`, and keeps what it raises, which librdkafka does not pass on."""

    def __init__(self, ask: Any) -> None:  # noqa: ANN401 - whatever the user gave
        self.ask = ask
        self.why = "it has to return a token, and when that expires in Unix seconds"
        """Why there is none."""

    def __call__(self, asked: str) -> object:
        """Return what librdkafka makes a token of."""
        try:
            return self.ask(asked)
        except Exception as error:
            self.why = repr(error)
            log.warning("%s gave no token: %s", TOKEN_OF, self.why)
            raise


def client_of(kind: Callable[[dict[str, Any]], Client], config: Mapping[str, Any]) -> Client:
    """Return a client of librdkafka, with its first token if it has an `oauth_cb`.

    A thread of its own asks for the next ones in time. Raises `Rejected` if librdkafka refuses the
    configuration, and `Unreachable` if the first token does not come within ten seconds.
    """
    settings, tokens = dict(config), TokenCalls(config.get(TOKEN_OF))
    if callable(tokens.ask):
        settings[TOKEN_OF] = tokens
    try:
        return kind(settings)
    except (KafkaException, TypeError, ValueError) as error:
        if isinstance(error, KafkaException) and error.args[0].code() == NO_TOKEN:
            raise Unreachable(f"{TOKEN_OF} gave no token: {tokens.why}") from error
        raise Rejected(f"Kafka's client refuses its configuration: {error}") from error


class Cluster:
    """What the calls of one client ask, and why none is answered if it cannot connect.

    librdkafka repeats whatever fails, and its calls know only that their time is up. A wrong
    password or certificate is reported at once, as `Rejected`, until the cluster has answered once:
    from then on it is `Unreachable`, as it may be mended while a service runs.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Connect with the first call; raises as `called` and `client_of`."""
        config = called(config)
        self.servers = config.get("bootstrap.servers", config.get("metadata.broker.list", ""))
        if not self.servers:
            raise Rejected("the Kafka configuration names no bootstrap.servers")
        self.settings: Mapping[str, Any] = connection(config)
        """What of the configuration any client of librdkafka takes."""
        self._has_answered = False
        self.connect()

    def connect(self) -> None:
        """Connect anew, with a new client."""
        self._troubles: dict[int, KafkaError] = {}
        told = {**self.settings, "error_cb": self._trouble}
        self.admin = client_of(AdminClient, told)
        """The client."""

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Log in with these from the next connection on."""
        self.settings = {**self.settings, "sasl.username": username, "sasl.password": password}
        self.admin.set_sasl_credentials(username, password)

    def answer(self, asked: Future[Result], timeout_s: float) -> Result:
        """Return the answer to a call; raises Kafka's error, or why there is no connection."""
        until = clocks.monotonic() + timeout_s
        self._troubles.clear()
        while not asked.done() and clocks.monotonic() < until:
            self.admin.poll(LOOK_S)
            if AWAY in self._troubles and not self._has_answered:
                for code in (LOGIN, TLS):
                    if code in self._troubles:
                        raise Rejected(self._sentence(code))
        try:
            found = asked.result(0)
        except TimeoutError as error:
            raise self.away() from error
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT:  # noqa: SLF001 - likewise
                raise self.away() from error
            raise
        self._has_answered = True
        return found

    def away(self) -> NotedTimeError:
        """Return the error of a call that nobody answers."""
        found = next((code for code in SAID if code in self._troubles), None)
        return Unreachable(self._sentence(found))

    def _trouble(self, error: KafkaError) -> None:
        """Keep a reason; of several, as librdkafka guesses now and then, the one that says most."""
        code = error.code()
        if code in SAID or code == AWAY:
            known = self._troubles.get(code, error)
            self._troubles[code] = max(known, error, key=lambda each: len(each.str()))

    def _sentence(self, code: int | None) -> str:
        nobody = f"no Kafka broker answers at {self.servers}"
        if code is not None:
            said = f"Kafka at {self.servers} {SAID[code]}" if SAID[code] else nobody
            return f"{said}: {AROUND.sub('', self._troubles[code].str())}"
        protocol = str(self.settings.get("security.protocol", "plaintext"))
        if AWAY in self._troubles and protocol.lower().endswith("plaintext"):
            return f"{nobody}: it hangs up; if the broker wants TLS, set security.protocol"
        return nobody
