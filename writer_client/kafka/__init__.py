"""Kafka producers and observers that note time. Needs confluent-kafka."""
