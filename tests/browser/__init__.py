"""The dashboard in a real browser. It is a package, so that its tests share one browser."""
