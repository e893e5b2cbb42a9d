from tests.controller.conftest import call, memory, store, time

__all__ = ["call", "memory", "store", "time"]
