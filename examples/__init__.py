"""Examples that run on real data; each is a command under `noted-time demo`."""
