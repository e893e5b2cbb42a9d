"""A story of the demo, played as the command does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from examples.flights.cli import Playable
    from examples.flights.stories.stage import Stage, Told


def played(story: Playable, stage: Stage) -> Told:
    """Return what came of a story whose words, figures and picture could be shown."""
    told = story.play(stage)
    assert all([*story.opening(stage.flights), *told.meaning])
    assert json.loads(json.dumps(told.figures)) == told.figures
    told.picture.savefig(stage.directory / "story.png")
    return told
