"""`python -m controller` is `noted-time`."""

from controller.cli import main

if __name__ == "__main__":
    main()
