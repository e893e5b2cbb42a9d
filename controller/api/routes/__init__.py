"""The FastAPI routes. Each parses its request, calls the service and replies."""
