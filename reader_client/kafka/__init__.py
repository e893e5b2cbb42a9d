"""Kafka consumers and relays. Needs confluent-kafka."""
