"""Batch reads of complete windows and of late rows, from the file log or from Kafka."""
