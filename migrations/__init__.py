"""How the tables of a database came to be, one revision after the other."""
