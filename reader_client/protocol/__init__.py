"""Questions to a controller and their answers, as values."""
