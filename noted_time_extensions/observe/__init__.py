"""Observes the event times in records of a Kafka topic.

Names are imported on first use, as each start of `noted-time` imports this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.extending import import_lazily

if TYPE_CHECKING:
    from noted_time_extensions.observe.fields import KafkaFields as KafkaFields
    from noted_time_extensions.observe.registry import registered_time as registered_time
    from noted_time_extensions.observe.resolved import KafkaResolved as KafkaResolved

LAZY_IMPORTS = {
    "KafkaFields": ("noted_time_extensions.observe.fields", "kafka"),
    "KafkaResolved": ("noted_time_extensions.observe.resolved", "kafka"),
    "registered_time": ("noted_time_extensions.observe.registry", "registry"),
}

__all__ = list(LAZY_IMPORTS)


def __getattr__(name: str) -> object:
    return import_lazily(__name__, LAZY_IMPORTS, name)
