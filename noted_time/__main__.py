"""Run `noted-time` as `python -m noted_time`."""

from noted_time_cli.__main__ import main

if __name__ == "__main__":
    main()
