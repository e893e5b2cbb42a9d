"""The controller without group commit: each request is a transaction of its own, all else alike."""

from __future__ import annotations

from controller.service import committer
from noted_time.__main__ import main

if __name__ == "__main__":
    committer.BATCH_NOTES = 1  # so a batch ends with the first request that brings a note
    main()
