"""Examples: the flights, each a command under `noted-time demo`, and a query in two modes."""
