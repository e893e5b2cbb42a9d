"""The revisions, numbered in their order."""
