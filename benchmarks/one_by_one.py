"""The controller without group commit: each request is a transaction of its own, all else alike."""

from __future__ import annotations

from functools import partialmethod

from controller.cli import main
from controller.service.committer import Committer

if __name__ == "__main__":
    # work that is the last of its batch, so every piece of work is a batch
    Committer.queue = partialmethod(Committer.queue, last=True)  # type: ignore[assignment,method-assign]
    main()
