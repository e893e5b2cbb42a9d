"""The commands of noted-time's extensions, read only to say which one an unknown command needs."""

from __future__ import annotations

from collections.abc import Mapping

OWN_COMMANDS: Mapping[str, str] = {"analyse": "analyse"}
"""The extension of each command."""
