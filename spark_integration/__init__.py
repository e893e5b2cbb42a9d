"""An exact watermark for Spark Structured Streaming, from the marks that writers vouch for."""

from spark_integration.noted_log import read_noted_log

__all__ = ["read_noted_log"]
