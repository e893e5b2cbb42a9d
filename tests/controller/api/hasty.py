"""`python -m controller` that waits a second, not half a minute, for a request."""

from controller.api.sockets.connections import Connection
from noted_time_cli.__main__ import main

if __name__ == "__main__":
    Connection.request_s = 1.0
    main()
