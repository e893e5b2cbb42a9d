"""The routes that FastAPI serves: they parse, make one call and reply."""
