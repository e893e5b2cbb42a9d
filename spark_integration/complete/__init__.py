"""Batch reads of complete windows and of late rows from Kafka."""
