"""What travels in Spark's options apart from the query."""

TOKEN = "token"  # noqa: S105 - its name
"""The option with the token of a reader: Spark hides what has such a name.

It reaches the process that plans, and neither the offset log nor the workers.
"""
