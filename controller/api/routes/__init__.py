"""The FastAPI routes."""
