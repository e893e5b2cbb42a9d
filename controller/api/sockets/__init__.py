"""The HTTP server, and the limits on its connections."""
