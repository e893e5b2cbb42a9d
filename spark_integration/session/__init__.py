"""What every part needs of Spark: its releases, sessions, processes and jars."""
