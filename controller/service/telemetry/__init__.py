"""What operators see of a controller: metrics, spans and its log."""
