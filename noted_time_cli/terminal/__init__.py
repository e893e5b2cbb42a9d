"""The options of commands, and their output."""
