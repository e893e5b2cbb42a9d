"""The settings of Spark's Kafka client, translated for librdkafka."""

from typing import Any

import pytest

from noted_time import Rejected
from noted_time.kafka.config_function import FUNCTION_SETTING
from spark_integration.kafka.client import build_client_config

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"sasl.jaas.config": PLAIN + r' password="a\"\\=;" username=me;'},
            {"sasl.username": "me", "sasl.password": r'a"\=;'},
        ),
        (
            {"sasl.jaas.config": SCRAM + "\nusername='me' password='';"},
            {"sasl.username": "me", "sasl.password": ""},
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.truststore.type": "pem", "ssl.truststore.certificates": "-----BEGIN"},
            {"ssl.ca.pem": "-----BEGIN"},
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/own.pem"},
            {"ssl.certificate.location": "/own.pem", "ssl.key.location": "/own.pem"},
        ),
        (
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": "c",
                "ssl.keystore.key": "k",
                "ssl.key.password": "p",
            },
            {"ssl.certificate.pem": "c", "ssl.key.pem": "k", "ssl.key.password": "p"},
        ),
    ],
)
def test_login_and_pem_stores_are_translated(
    given: dict[str, str], expected: dict[str, str]
) -> None:
    """No other option is taken."""
    options = {f"kafka.{name}": value for name, value in given.items()} | {"minPartitions": "3"}

    assert build_client_config(options, None) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.jaas.config", f"{BEARER} secret=x;"),
        ("sasl.jaas.config", f"{PLAIN} username=secret;"),
        ("sasl.login.callback.handler.class", "secret"),
        ("ssl.truststore.location", "/secret.jks"),
        ("ssl.keystore.password", "secret"),
    ],
)
def test_untranslatable_setting_is_named_without_its_value(name: str, value: str) -> None:
    """The error asks for client=."""
    options = {f"kafka.{name}": value, "kafka.security.protocol": "SASL_SSL"}
    with pytest.raises(Rejected, match=f'kafka.{name} is for Java.*client="module:') as refusal:
        build_client_config(options, None)

    assert "secret" not in str(refusal.value)
    assert build_client_config(options, {"sasl.username": "me"}) == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "me",
    }


@pytest.mark.parametrize("client", [print, {"oauth_cb": print}])
def test_function_instead_of_its_name_is_refused(client: Any) -> None:  # noqa: ANN401 - not a name
    """Spark's options are text, so a function is given by its name."""
    options = {"kafka.bootstrap.servers": "b:9092", "kafka.sasl.mechanism": "AWS_MSK_IAM"}
    with pytest.raises(Rejected, match='pass its name, client="module:function"'):
        build_client_config(options, client)

    assert build_client_config(options, "kafka_login:config") == {
        "bootstrap.servers": "b:9092",
        "sasl.mechanism": "AWS_MSK_IAM",
        FUNCTION_SETTING: "kafka_login:config",
    }
