"""Serves the controller's callers: group commit, long polls, timeouts."""
