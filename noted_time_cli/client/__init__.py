"""Commands that call a controller over HTTP, and what they share."""
