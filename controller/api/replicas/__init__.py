"""The other controllers of the database, and the forwarding of requests to them."""
