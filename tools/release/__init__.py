"""The parts of a release, and the environments of its trials."""
