"""What Kafka says of a topic, for producers, readers and queries; the extra `kafka`."""

from noted_time.extras import needs_extra

try:
    from noted_time.kafka.topic import Topic, TopicLook
except ModuleNotFoundError as error:
    raise needs_extra(__name__, "kafka", error) from error
