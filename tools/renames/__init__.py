"""The renames of the public vocabulary, and the judge that finds what else changed with them."""
