"""Programs that `./run kafka`, `./run cluster` and `./run java` start, and tests use."""
