"""Metrics, spans and the log of a controller."""
