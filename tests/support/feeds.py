"""A feed of marks without a controller."""

from collections.abc import Mapping

from noted_time import Unreachable
from spark_integration.marks.released import Released


class LocalFeed:
    """A feed that begins anywhere, and explains nothing."""

    subject = "stream 'flights', domain 'default'"

    def begin(self, released: Released) -> None:
        """See `MarksFeed`."""

    def explain(self, position: Mapping[int, int]) -> str:
        """See `MarksFeed`."""
        raise Unreachable(str(position))

    def close(self) -> None:
        """See `MarksFeed`."""
