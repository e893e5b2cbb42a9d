"""A reader's reports to its group, the group's position, and the reader's waits."""
