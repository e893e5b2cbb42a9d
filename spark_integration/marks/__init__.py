"""Marks, from the controller to the watermark of a query."""
