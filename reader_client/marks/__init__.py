"""The marks that a reader knows, and how it follows those that come."""
