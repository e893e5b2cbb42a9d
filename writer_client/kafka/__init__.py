"""Kafka, for its producers and its observers; needs confluent-kafka."""
