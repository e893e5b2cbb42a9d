"""The options of our Spark sources, apart from the query."""

TOKEN = "token"  # noqa: S105 - its name
"""The option with the token: Spark redacts options of that name.

It reaches the process that plans, but neither the offset log nor the workers.
"""
