"""`python -m controller` is `noted-time`, which serves if no command is named."""

import sys

from noted_time_cli.__main__ import main

if __name__ == "__main__":
    first = sys.argv[1] if sys.argv[1:] else "-"
    if first.startswith("-") and first not in {"-h", "--help", "--version"}:
        sys.argv.insert(1, "serve")
    main()
