"""What `./run kafka`, `./run cluster` and `./run java` start: for trials, and for the tests."""
