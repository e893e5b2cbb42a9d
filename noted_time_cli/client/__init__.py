"""Commands that call a controller over HTTP."""
