"""Output of a query that is a stream of its own."""
