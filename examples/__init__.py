"""The flights, each a command under `noted-time demo`, a query in two modes, and trials."""
