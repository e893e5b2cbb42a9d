"""HTTP: requests become calls of the service, values and errors become JSON."""
