"""Delta and Iceberg tables whose commits say up to when they are complete."""
