"""The fixtures of Spark's tests, and reads of file logs."""

from noted_time_extensions.files.tests.support.reads import read
from tests.spark.conftest import controller, flights, landings, output, served, shared_controller

__all__ = ["controller", "flights", "landings", "output", "read", "served", "shared_controller"]
