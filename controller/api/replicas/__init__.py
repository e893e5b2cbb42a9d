"""The other controllers of the database."""
