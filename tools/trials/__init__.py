"""The controllers, databases, brokers and browsers that the demo, benchmarks and tests start."""
