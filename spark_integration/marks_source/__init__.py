"""Marks beside a source that is not ours: a source of their own, united with the events."""
