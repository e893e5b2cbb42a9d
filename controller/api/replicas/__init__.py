"""The other controllers of the database, to which requests for their streams are forwarded."""
