"""Delta and Iceberg tables whose commits contain a query's claims."""
