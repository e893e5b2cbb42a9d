from tests.spark.conftest import controller, flights, served, shared_controller

__all__ = ["controller", "flights", "served", "shared_controller"]
