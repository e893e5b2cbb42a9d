"""Spark releases, session settings, pickling and jars, for all other folders."""
