from noted_time_extensions.files.tests.support.reads import read
from tests.spark.conftest import controller, flights, make_clock, output, served, shared_controller
from tests.spark.test_gone import clock

__all__ = [
    "clock",
    "controller",
    "flights",
    "make_clock",
    "output",
    "read",
    "served",
    "shared_controller",
]
