"""Serve S3 on loopback with moto, for the Python of the suite's own environment."""

import sys
import time


def main(port: int) -> None:
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer  # noqa: PLC0415

    ThreadedMotoServer("127.0.0.1", port, verbose=False).start()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(int(sys.argv[1]))
