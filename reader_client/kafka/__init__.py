"""Kafka, for its consumers and for relays; needs confluent-kafka."""
