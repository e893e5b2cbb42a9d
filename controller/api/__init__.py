"""The HTTP API: requests call the service, and its values and errors are answered as JSON."""
