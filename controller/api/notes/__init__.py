"""The route for notes, which is served without FastAPI."""
