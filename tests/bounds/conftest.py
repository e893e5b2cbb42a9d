from tests.controller.api.conftest import call
from tests.controller.conftest import memory, store, time

__all__ = ["call", "memory", "store", "time"]
