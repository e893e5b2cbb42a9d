"""The rows of the file log, and the rows that a query or a micro-batch reads."""
