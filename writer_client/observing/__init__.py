"""Observers: processes that note for a log whose writers do not."""
