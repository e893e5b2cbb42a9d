"""Marks on their way into a query: from the controller to the watermark."""
