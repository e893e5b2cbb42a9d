"""Console examples in a page of documentation: what was typed, and what came back."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

BINDING = "http://127.0.0.1:7464"
"""Where the controller of a page listens."""

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGING = {"id", "stream_id", "written_at", "noted_at", "holding_since", "since_ms"}
CHANGING |= {"left_out_in_ms"}


def examples(page: str) -> list[tuple[str, str]]:
    """Return each command of the page with the output that is shown below it."""
    found = []
    for block in BLOCK.findall(page):
        for example in block.split("$ ")[1:]:
            command, _, output = example.partition("\n{")
            found.append((command, "{" + output))
    return found


def outputs(shown: Sequence[tuple[str, str]], url: str) -> list[str]:
    """Run the commands in their order, on a controller at `url`; returns what each printed."""
    return [
        subprocess.run(
            ["sh", "-c", command.replace("curl ", "curl -s ").replace(BINDING, url)],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout
        for command, _ in shown
    ]


def steady(output: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the JSON without what differs from run to run."""
    return _steady(json.loads(output))


def _steady(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {
            name: type(each).__name__ if name in CHANGING else _steady(each)
            for name, each in value.items()
        }
    return list(map(_steady, value)) if isinstance(value, list) else value
