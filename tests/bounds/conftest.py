from tests.controller.conftest import call, memory, sqlite, store, time

__all__ = ["call", "memory", "sqlite", "store", "time"]
