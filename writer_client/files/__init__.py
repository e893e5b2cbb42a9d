"""The file log, for its writers and its observers; needs pyarrow."""
