"""A broker with a TLS listener for logins (SCRAM, tokens), and one for certificates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tools.trials.broker import Broker
from tools.trials.certificates import make_certificates
from tools.trials.ports import free_port
from tools.trials.tokens import KEYS, TokenServer

USER = "alice"
PASSWORD = "wonderland"  # noqa: S105 - of a broker for trials


class SecuredBroker(Broker):
    """A broker with an open listener and two secured ones.

    `scram` and `mutual` configure clients of librdkafka for them, and `bearer` for tokens, except
    for the `oauth_cb` that gets them from `token_url`.
    """

    def __init__(self, root: Path, *, port: int = 0) -> None:
        """Use the next two ports for the secured listeners, and the third for tokens.

        Port 0 uses any free ones.
        """
        super().__init__(root, port=port)
        at_scram = f"127.0.0.1:{port + 1 if port else free_port()}"
        at_mutual = f"127.0.0.1:{port + 2 if port else free_port()}"
        tls = root.resolve() / "tls"
        make_certificates(tls, "broker", "client")
        trusting = {"ssl.ca.location": str(tls / "ca.pem")}
        login = {"bootstrap.servers": at_scram, "security.protocol": "SASL_SSL", **trusting}
        self.bearer: dict[str, Any] = {**login, "sasl.mechanism": "OAUTHBEARER"}
        self.scram: dict[str, Any] = {
            **login,
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        self.mutual: dict[str, Any] = {
            "bootstrap.servers": at_mutual,
            "security.protocol": "SSL",
            "ssl.certificate.location": str(tls / "client.pem"),
            "ssl.key.location": str(tls / "client.pem"),
            **trusting,
        }
        self._tokens: TokenServer | None = None
        self._token_port = port + 3 if port else free_port()
        self.token_url = f"http://127.0.0.1:{self._token_port}/token"
        self._keys = root.resolve() / "keys.json"
        allowed_urls = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._keys.as_uri()}"
        self._words.insert(1, allowed_urls)
        for name in ("listeners", "advertised.listeners"):
            self._settings[name] = f"{self._settings[name]},SASL_SSL://{at_scram},SSL://{at_mutual}"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
        bearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
        bears = "listener.name.sasl_ssl.oauthbearer.sasl"
        self._settings |= {
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "SASL_SSL:SASL_SSL,SSL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": tls / "broker.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": tls / "ca.pem",
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER",
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{scram} required;",
            f"{bears}.jaas.config": f"{bearer}LoginModule required;",
            f"{bears}.server.callback.handler.class": f"{bearer}ValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": self._keys.as_uri(),
        }

    def start(self) -> None:
        """Start it, with a user who may log in and get tokens."""
        self._keys.parent.mkdir(parents=True, exist_ok=True)
        self._keys.write_text(json.dumps(KEYS))
        super().start()
        self._tokens = self._tokens or TokenServer(self._token_port, USER, PASSWORD)
        credential_info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        user = UserScramCredentialUpsertion(USER, credential_info, PASSWORD.encode())
        self.change(lambda admin: admin.alter_user_scram_credentials([user]))

    def stop(self) -> None:
        self._close_tokens()
        super().stop()

    def kill(self) -> None:
        """End both, the broker by a kill."""
        self._close_tokens()
        super().kill()

    def _close_tokens(self) -> None:
        if self._tokens is not None:
            self._tokens.close()
            self._tokens = None
