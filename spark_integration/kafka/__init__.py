"""Kafka topics read by Spark's own source, with the marks of their stream."""
