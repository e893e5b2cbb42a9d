from tests.kafka.conftest import flights, topic

__all__ = ["flights", "topic"]
