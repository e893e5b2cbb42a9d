"""`noted-time analyse`; most modules need its extra, so commands import them when they run."""
