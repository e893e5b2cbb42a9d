"""`noted-time` in a process whose memory cannot become executable."""

import ctypes
import sys

from noted_time_cli.__main__ import main

PR_SET_MDWE = 65
REFUSE_EXEC_GAIN = 1

if __name__ == "__main__":
    if sys.platform != "linux" or ctypes.CDLL(None).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0):
        sys.exit("this kernel knows no PR_SET_MDWE")
    main()
