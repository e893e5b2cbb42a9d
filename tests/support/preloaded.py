"""Imports what `noted-time` needs, so that its forks do not have to: see `forks`."""

import controller.api.app
import controller.api.sockets.server
import controller.store.migrate
import controller.store.open
import controller.store.sqlite
import noted_time_cli.app

__all__ = ["controller", "noted_time_cli"]
