"""What is installed here, by hash, and the modules that install it: of the standard library alone.

`./run` imports them with whatever Python starts it, so they read as Python 3.7 does.
"""
