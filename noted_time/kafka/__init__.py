"""Reads Kafka topics and their metadata. A `Topic` needs the extra `kafka`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extras import import_lazily

if TYPE_CHECKING:
    from noted_time.kafka.topic import Topic, TopicLook

__all__ = ["Topic", "TopicLook"]

LAZY_IMPORTS = dict.fromkeys(__all__, ("noted_time.kafka.topic", "kafka"))


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
