"""`noted-time observe`."""
