"""Derived streams: a query's output as a stream for other queries."""
