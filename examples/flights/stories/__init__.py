"""What noted time does beside the watermark, each told on the same flights."""
