"""`noted-time doctor`: rules that judge what was found, and what asks for it."""
