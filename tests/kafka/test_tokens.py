"""Logins by tokens: functions for the configuration, and renewal of tokens."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from noted_time import Rejected, Unreachable
from noted_time.kafka import Topic
from noted_time.kafka.config_function import FUNCTION_SETTING, resolve_config
from noted_time.kafka.connecting import Cluster, create_client, select_connection
from tools.trials.secured_kafka import PASSWORD, USER, SecuredBroker
from tools.trials.tokens import make_token
from tools.trials.waiting import wait_until
from writer_client import KafkaTimes

Config = dict[str, Any]
BEARER = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return a function that writes a module and returns the name of its function `config`."""
    monkeypatch.chdir(tmp_path)

    def write_module(text: str) -> str:
        name = f"login_{abs(hash(text))}"
        (tmp_path / f"{name}.py").write_text(text)
        return f"{name}:config"

    return write_module


def test_a_function_gives_the_configuration(module: Callable[[str], str]) -> None:
    """Its settings replace the given ones."""
    name = module("def config(): return {'oauth_cb': print, 'client.id': 'own'}")

    config = resolve_config(
        {"bootstrap.servers": "b:9092", "client.id": "given", FUNCTION_SETTING: name}
    )

    assert config == {"bootstrap.servers": "b:9092", "client.id": "own", "oauth_cb": print}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("config = 1 / 0", "cannot be imported: division by zero"),
        ("", "cannot be imported: module .* has no attribute 'config'"),
        ("config = {}", "raised TypeError.*: it must return a mapping of librdkafka's settings"),
        ("def config(): raise OSError('no metadata')", r"raised OSError\('no metadata'\)"),
        ("def config(): return 'a=b'", "returned str: it must return a mapping"),
    ],
)
def test_function_without_valid_configuration_is_named(
    module: Callable[[str], str], text: str, says: str
) -> None:
    """The error has the fault and the remedy."""
    name = module(text)
    with pytest.raises(Rejected, match=f"the function '{name}' {says}"):
        Cluster({"bootstrap.servers": "b:9092", FUNCTION_SETTING: name})


@pytest.mark.parametrize("name", ["nowhere:config", "json", "json:"])
def test_missing_function_is_explained(name: str) -> None:
    """The error says how to write the function and where."""
    with pytest.raises(Rejected, match="Write it as module:function, and put the module on the PY"):
        resolve_config({FUNCTION_SETTING: name})


def test_all_clients_keep_the_token_settings() -> None:
    """They keep no settings of producers or consumers."""
    names = ("oauth_cb", "sasl.oauthbearer.config", "sasl.oauthbearer.token.endpoint.url")
    other_settings = ("https.ca.location", "client.dns.lookup", "broker.address.family")
    kept_settings: Config = dict.fromkeys(
        (*names, *other_settings, "enable.sasl.oauthbearer.unsecure.jwt"), ""
    )

    assert select_connection({**kept_settings, "linger.ms": 5, "group.id": "own"}) == {
        **kept_settings,
        "log_level": 2,
    }


class Tokens:
    """An `oauth_cb` that counts its calls; its tokens last `lasts_s`."""

    def __init__(self, lasts_s: float = 3600.0) -> None:
        self.calls = 0
        self._lasts_s = lasts_s

    def __call__(self, _: str) -> tuple[str, float]:
        self.calls += 1
        return make_token(USER), time.time() + self._lasts_s


@pytest.mark.acceptance
def test_tokens_are_renewed_in_the_background(secured: SecuredBroker) -> None:
    """A thread of librdkafka renews them."""
    tokens = Tokens(lasts_s=2)
    topic = Topic({**secured.bearer, "oauth_cb": tokens}, "flights")

    assert topic.look().ends == {0: 1, 1: 0}
    earlier_calls = tokens.calls
    wait_until(lambda: tokens.calls > earlier_calls)


@pytest.mark.acceptance
def test_every_client_logs_in_by_its_own_token(secured: SecuredBroker) -> None:
    """There is an observer, and the consumer of a program."""
    config = {**secured.bearer, "oauth_cb": Tokens()}
    times = KafkaTimes(config, "flights")
    consumer = create_client(Consumer, {**config, "group.id": "tokens"})

    assert times().newest == {0: 5}
    assert [*consumer.list_topics("flights", timeout=10).topics] == ["flights"]
    consumer.close()


@pytest.mark.acceptance
def test_a_client_id_with_a_secret_needs_no_function(secured: SecuredBroker) -> None:
    """The client calls the token server."""
    token_settings = {
        "token.endpoint.url": secured.token_url,
        "client.id": USER,
        "client.secret": PASSWORD,
    }
    login_settings = {f"sasl.oauthbearer.{name}": value for name, value in token_settings.items()}
    topic = Topic(
        {**secured.bearer, **login_settings, "sasl.oauthbearer.method": "oidc"}, "flights"
    )

    assert topic.look().ends == {0: 1, 1: 0}


@pytest.mark.acceptance
def test_refused_token_raises_at_once(secured: SecuredBroker) -> None:
    """The token has a wrong signature."""

    def forge_token(_: str) -> tuple[str, float]:
        return make_token(USER, b"a key that the broker has not...."), time.time() + 3600

    says = 'refuses the login: SASL authentication error: {"status":"invalid_token"}'
    with pytest.raises(Rejected) as refusal:
        Topic({**secured.bearer, "oauth_cb": forge_token}, "flights").look(timeout_s=600)

    assert says in str(refusal.value)


def away(_: str) -> tuple[str, float]:
    raise OSError("no server of tokens")


def unusable(_: str) -> tuple[str, float]:
    """Return an empty token that has expired."""
    return "", 0.0


def test_clients_retry_while_no_token_is_available(caplog: pytest.LogCaptureFixture) -> None:
    """The token server may be away for a moment; the log has the error at once."""

    def fail(oauth_cb: Callable[[str], object]) -> str:
        with pytest.raises(Unreachable) as error:
            Topic({"bootstrap.servers": "127.0.0.1:9", **BEARER, "oauth_cb": oauth_cb}, "flights")
        return str(error.value)

    with ThreadPoolExecutor() as pool:  # librdkafka waits for ten seconds
        failures = [*pool.map(fail, (away, unusable))]

    phrase = "oauth_cb gave no token: "
    is_away = f"{phrase}OSError('no server of tokens')"
    assert failures[0].startswith(is_away)
    assert failures[1].startswith(f"{phrase}it must return a token and its expiry")
    assert {record.getMessage() for record in caplog.records} == {is_away}
