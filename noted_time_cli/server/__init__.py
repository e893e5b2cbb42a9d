"""Commands that run a controller or open its database."""
