"""JSON and its errors, as requests bring them and answers have them."""
