from tests.cli.conftest import impatient, run, stream
from tests.kafka.conftest import flights, topic

__all__ = ["flights", "impatient", "run", "stream", "topic"]
