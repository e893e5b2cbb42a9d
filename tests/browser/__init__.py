"""The dashboard in a real browser: a package, so that its tests share one that then ends."""
