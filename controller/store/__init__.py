"""The controller's database; all SQL is here."""
