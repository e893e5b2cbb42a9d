"""The memory and CPU time of a process, as Linux reports them."""

import os
import re
from pathlib import Path

MIB = 1024 * 1024


class Usage:
    """The usage of a process from now on."""

    def __init__(self, pid: int) -> None:
        self._proc = Path(f"/proc/{pid}")
        (self._proc / "clear_refs").write_text("5")  # forgets the peak
        self._memory = self._peak()
        self._cpu = self._seconds()

    def memory(self) -> float:
        """Return by how many MiB its peak has grown."""
        return (self._peak() - self._memory) / MIB

    def peak(self) -> float:
        """Return its peak since then in MiB."""
        return self._peak() / MIB

    def cpu(self) -> float:
        return self._seconds() - self._cpu

    def files(self) -> int:
        return sum(1 for _ in (self._proc / "fd").iterdir())

    def _peak(self) -> int:
        match = re.search(r"VmHWM:\s+(\d+) kB", (self._proc / "status").read_text())
        assert match
        return int(match[1]) * 1024

    def _seconds(self) -> float:
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
