"""The file log, for its writers and observers. Needs pyarrow."""
