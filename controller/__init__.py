"""The controller of streams."""
