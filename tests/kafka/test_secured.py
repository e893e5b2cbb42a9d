"""Secured connections, and the errors of failed ones."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from noted_time import NotedTimeError, Rejected, Unreachable
from noted_time.kafka import Topic
from tools.trials.certificates import make_authority
from tools.trials.secured_kafka import SecuredBroker

pytestmark = pytest.mark.acceptance

Config = dict[str, Any]


def without(config: Config, *prefixes: str) -> Config:
    """Return the configuration without settings of these prefixes."""
    return {name: value for name, value in config.items() if not name.startswith(prefixes)}


def cases(
    broker: SecuredBroker, other_authority: Path
) -> Iterator[tuple[Config, type[NotedTimeError], str]]:
    """Yield configurations that cannot connect, with their errors."""
    scram = broker.scram
    mutual = broker.mutual
    address = broker.scram["bootstrap.servers"]
    silent = f"no Kafka broker answers at {address}"
    login = (
        f"Kafka at {address} refuses the login: SASL authentication error: Authentication failed "
    )
    yield scram | {"sasl.password": "guessed"}, Rejected, f"{login}during authentication due to "
    yield scram | {"sasl.mechanism": "PLAIN"}, Rejected, "SASL PLAIN mechanism handshake failed"
    yield (
        scram | {"ssl.ca.location": str(other_authority)},
        Rejected,
        f"Kafka at {address} and this client do not agree on TLS: SSL handshake failed: ",
    )
    wants = f"{silent}: it hangs up; if the broker wants TLS, set security.protocol"
    yield without(scram, "security", "sasl", "ssl"), Unreachable, wants
    yield without(scram, "ssl") | {"security.protocol": "SASL_PLAINTEXT"}, Unreachable, silent
    yield scram | broker.config, Unreachable, "connecting to a PLAINTEXT broker listener?"
    yield without(mutual, "ssl.cert", "ssl.key"), Unreachable, "bad certificate"
    yield {"bootstrap.servers": "none.invalid:9092"}, Unreachable, "Failed to resolve 'none.invalid"
    yield {"bootstrap.servers": "127.0.0.1:9"}, Unreachable, "failed: Connection refused"


def test_failed_connection_is_explained(secured: SecuredBroker, tmp_path: Path) -> None:
    """Errors that waiting cannot resolve are raised at once."""

    def fail(config: Config, error: type[NotedTimeError]) -> NotedTimeError:
        with pytest.raises(NotedTimeError) as failed:
            Topic(config, "flights").look(timeout_s=3.0 if error is Unreachable else 600.0)
        return failed.value

    configs, errors, says = zip(*cases(secured, make_authority(tmp_path)), strict=True)
    with ThreadPoolExecutor(len(configs)) as pool:  # most of them wait
        failures = [*pool.map(fail, configs, errors)]

    for failure, error, sentence in zip(failures, errors, says, strict=True):
        assert (type(failure), sentence in str(failure)) == (error, True), failure
        assert "in state" not in str(failure)
        assert "guessed" not in str(failure)


def test_a_service_that_was_connected_tries_again(secured: SecuredBroker) -> None:
    """An operator may correct the password or the certificate."""
    topic = Topic(secured.scram, "flights")
    assert topic.look().partitions == {0, 1}
    user, password = (
        secured.scram[f"sasl.{field_name}"] for field_name in ("username", "password")
    )
    topic.set_sasl_credentials(user, "old")
    topic._cluster.connect()
    with pytest.raises(Unreachable, match="refuses the login"):
        topic.look(timeout_s=3)
    topic.set_sasl_credentials(user, password)
    topic._cluster.connect()
    assert topic.look().partitions == {0, 1}
