"""Notes in, results out: the one route in front of FastAPI."""
