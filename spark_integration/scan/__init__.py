"""Which rows the file log has, and which of them a query or a micro-batch reads."""
