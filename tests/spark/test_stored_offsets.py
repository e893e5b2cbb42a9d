"""What each kind of query leaves in its checkpoint's offset log, and continues from.

Those of marks in a topic, and of tables, have offsets of Spark and of Kafka alone. A batch read of
complete windows leaves none.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from spark_integration.log.offset import LogOffset
from spark_integration.marks_source.admitted import MarksOffset

STORED: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("stored-offsets.json").read_text()
)


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored["of"])
def test_an_offset_keeps_the_shape_that_checkpoints_have(stored: dict[str, Any]) -> None:
    """It is read with all that it says, and written again as it was."""
    offset = stored["offset"]
    kind = LogOffset if "noted_log" in offset else MarksOffset

    assert kind.from_json(offset).to_json() == offset
