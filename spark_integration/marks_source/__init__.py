"""Marks as a separate source, united with the events of another source."""
