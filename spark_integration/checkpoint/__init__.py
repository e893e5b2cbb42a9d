"""What the checkpoint of a query tells: how far its sources have read."""
