"""Programs and modules for the development of this project; no wheel carries them."""
