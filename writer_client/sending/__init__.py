"""What a writer claims, and how its notes reach a controller; no thread and no task."""
