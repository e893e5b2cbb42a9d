"""Installs what `./run` needs: environments, Java, the requirement locks, and the suites of tests.

They need only the standard library, and Python 3.7 can parse them, because `./run` imports them.
"""
