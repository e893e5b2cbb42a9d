"""Who calls, what it may, and what is recorded of it."""
