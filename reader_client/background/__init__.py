"""What repeats in threads or tasks, and how they are woken."""
