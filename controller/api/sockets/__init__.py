"""The server, and the bounds on its connections."""
