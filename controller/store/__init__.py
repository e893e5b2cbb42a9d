"""The controller's database. All SQL is in this package."""
