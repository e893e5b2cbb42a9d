"""Commands that run a controller in this process, or open its database."""
