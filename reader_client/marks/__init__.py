"""The marks that a reader knows, and how it receives new ones."""
