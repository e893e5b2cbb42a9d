"""What commands read from a terminal and print to it."""
