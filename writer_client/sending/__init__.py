"""What a writer vouches for, and how its notes reach a controller; no thread and no task."""
