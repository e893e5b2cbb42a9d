"""The command line: what runs a controller here, calls one over HTTP, observes or relays."""
