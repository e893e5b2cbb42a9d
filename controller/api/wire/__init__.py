"""The JSON of requests, answers and errors."""
