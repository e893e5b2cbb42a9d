"""The checkpoint of a query, which contains how far its sources have read."""
