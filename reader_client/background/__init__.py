"""The threads or tasks that repeat a client's steps, and how they are woken."""
