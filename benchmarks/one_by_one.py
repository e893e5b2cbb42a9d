"""The controller without group commit: each request is a transaction of its own, all else alike."""

from __future__ import annotations

from controller.cli import main
from controller.service import committer

if __name__ == "__main__":
    committer.BATCH_NOTES = 1  # so a batch ends with the first request that brings a note
    main()
