"""What a release consists of, and the environments that it is tried in."""
