"""All controllers of one database, asked by one of them."""
