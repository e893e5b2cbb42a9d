"""What the controller does for its callers: group commit, long polls, timeouts."""
