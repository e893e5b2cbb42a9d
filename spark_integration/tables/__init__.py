"""Claims in the commits of tables that a query writes."""
