"""`noted-time bench`: what a controller does on this machine, and the load that finds it out."""
