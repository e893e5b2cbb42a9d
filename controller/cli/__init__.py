"""The command line: what runs a controller here, and what calls one over HTTP."""
