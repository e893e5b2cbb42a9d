"""The controller takes notes over HTTP, aggregates them to marks, and serves both."""
