"""What outlives the controller's process, and the only place that knows SQL."""
