"""Run `noted-time` as `python -m controller`. The default command is `serve`."""

import sys

from noted_time_cli.__main__ import main

if __name__ == "__main__":
    words = sys.argv[1:]
    if not words or (words[0].startswith("-") and words[0] not in {"-h", "--help", "--version"}):
        sys.argv.insert(1, "serve")
    main()
