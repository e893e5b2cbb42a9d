"""The state of a writer and the posting of its notes, without threads or tasks."""
