"""A broker with a listener for TLS with a login (SCRAM), and one for TLS with certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.kafka import Broker, free_port

CERTIFICATES = Path(__file__).with_name("kafka_tls")
CA, OTHER_CA = CERTIFICATES / "ca.pem", CERTIFICATES / "other-ca.pem"
OWN = CERTIFICATES / "client.pem"
USER, PASSWORD = "alice", "wonderland"


class SecuredBroker(Broker):
    """Beside the listener of every broker, which asks for nothing, it has two that are secured.

    `scram` and `mutual` configure clients of librdkafka for them.
    """

    def __init__(self, root: Path, *, port: int = 0) -> None:
        """Have the secured listeners on the next two ports; port 0 has all on any free ones."""
        super().__init__(root, port=port)
        at_scram = f"127.0.0.1:{port + 1 if port else free_port()}"
        at_mutual = f"127.0.0.1:{port + 2 if port else free_port()}"
        trusting = {"ssl.ca.location": str(CA)}
        self.scram: dict[str, Any] = {
            "bootstrap.servers": at_scram,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            **trusting,
        }
        self.mutual: dict[str, Any] = {
            "bootstrap.servers": at_mutual,
            "security.protocol": "SSL",
            "ssl.certificate.location": str(OWN),
            "ssl.key.location": str(OWN),
            **trusting,
        }
        for name in ("listeners", "advertised.listeners"):
            self._settings[name] = f"{self._settings[name]},SASL_SSL://{at_scram},SSL://{at_mutual}"
        protocols = ("PLAINTEXT", "SASL_SSL", "SSL")
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        self._settings |= {
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{each}:{each}" for each in protocols)]
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": CERTIFICATES / "broker.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": CA,
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{module} required;",
        }

    def start(self) -> None:
        """Start it, with a user who may log in."""
        super().start()
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        user = UserScramCredentialUpsertion(USER, how, PASSWORD.encode())
        self.change(lambda admin: admin.alter_user_scram_credentials([user]))
