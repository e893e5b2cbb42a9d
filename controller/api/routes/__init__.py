"""The FastAPI routes, which parse a request, call the service and reply."""
