"""Translates settings of Spark's Kafka client for confluent-kafka."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from noted_time import Rejected
from noted_time.kafka.config_function import FUNCTION_SETTING

Client = Mapping[str, str] | str  # settings of librdkafka, or `module:function`

CLIENT_PREFIX = "kafka."

SHARED_SETTINGS = (
    *("bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.kerberos.service.name"),
    *("ssl.endpoint.identification.algorithm", "ssl.key.password", "client.dns.lookup"),
)

JAAS_SETTING = "sasl.jaas.config"
JAAS_LOGIN = re.compile(r"\s*\S+\.(?:Plain|Scram)LoginModule\s+required\s+(.*?);?\s*", re.DOTALL)
JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
JAAS_ESCAPE = re.compile(r"\\(.)")

STORE_SETTINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "ssl.truststore.": {"location": ("ssl.ca.location",), "certificates": ("ssl.ca.pem",)},
    "ssl.keystore.": {
        "location": ("ssl.certificate.location", "ssl.key.location"),
        "certificate.chain": ("ssl.certificate.pem",),
        "key": ("ssl.key.pem",),
    },
}


def build_client_config(options: Mapping[str, Any], client: Client | None) -> dict[str, str]:
    """Translate settings, so that confluent-kafka connects as Spark does.

    >>> login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a" '
    >>> given = {"kafka.sasl.mechanism": "SCRAM-SHA-256", "kafka.sasl.jaas.config": login}
    >>> build_client_config({**given, "kafka.sasl.jaas.config": login + 'password="b";'}, None)
    {'sasl.mechanism': 'SCRAM-SHA-256', 'sasl.username': 'a', 'sasl.password': 'b'}

    Spark plans in another process, so a function is passed by name:

    >>> build_client_config({"kafka.bootstrap.servers": "b:9092"}, "kafka_login:config")
    {'bootstrap.servers': 'b:9092', 'noted_time.function': 'kafka_login:config'}

    A setting that cannot be translated is refused:

    >>> build_client_config({"kafka.ssl.truststore.location": "/trust.jks"}, None)
    Traceback (most recent call last):
        ...
    noted_time.Rejected: option kafka.ssl.truststore.location is for Java, ...
    """
    settings: dict[str, str] = {}
    for name, value in options.items():
        if name.startswith(CLIENT_PREFIX):
            settings[name.removeprefix(CLIENT_PREFIX)] = str(value)
    shared_settings = {name: settings[name] for name in SHARED_SETTINGS if name in settings}
    if isinstance(client, str):
        return {**shared_settings, FUNCTION_SETTING: client}
    if client is not None:
        if callable(client) or any(callable(value) for value in client.values()):
            raise Rejected(
                "client= contains a function, which cannot be passed to the process in which Spark "
                "plans: write a function that returns all settings, and pass its name, "
                'client="module:function"'
            )
        return {**shared_settings, **client}
    config = dict(shared_settings)
    for name, value in settings.items():
        if name.startswith(("sasl.", "ssl.")) and name not in SHARED_SETTINGS:
            config |= _translate_setting(name, value, settings)
    return config


def _translate_setting(name: str, value: str, settings: Mapping[str, str]) -> Mapping[str, str]:
    if name == JAAS_SETTING and (login := JAAS_LOGIN.fullmatch(value)):
        login_settings: dict[str, str] = {}
        for option, *alternatives in JAAS_OPTION.findall(login[1]):
            quoted_text = "".join(alternatives)  # one way of quoting matches, the others are empty
            login_settings[f"sasl.{option}"] = JAAS_ESCAPE.sub(r"\1", quoted_text)
        if login_settings.keys() == {"sasl.username", "sasl.password"}:
            return login_settings
    for store, names in STORE_SETTINGS.items():
        field_name = name.removeprefix(store)
        if field_name != name and settings.get(f"{store}type", "").upper() == "PEM":
            return dict.fromkeys(names.get(field_name, ()), value)
    raise Rejected(
        f"option {CLIENT_PREFIX}{name} is for Java, and the planner connects by librdkafka: pass "
        "librdkafka's settings for the same connection as client=, such as "
        'client={"sasl.username": …, "sasl.password": …, "ssl.ca.location": …}, or the name of a '
        'function that returns them, client="module:function"'
    )
