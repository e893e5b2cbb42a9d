"""`python -m controller` that holds requests without an owner for a second, not for eight."""

from controller.api import forwarding
from noted_time.__main__ import main

if __name__ == "__main__":
    forwarding.HOLD_S = 1.0
    main()
