"""A reader among others: its reports, the position of its group, and what it waits for."""
