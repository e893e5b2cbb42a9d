"""`noted-time doctor`: the checks, and the rules that judge their results."""
