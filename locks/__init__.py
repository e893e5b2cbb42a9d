"""The locks of installed packages, and the modules that install them.

They need only the standard library, and Python 3.7 can parse them, because `./run` imports them.
"""
