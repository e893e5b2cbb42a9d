"""Real flights counted as they land: noted time against Spark's own watermark.

Every carrier is a writer, a flight is an event that happens when it departs and becomes known when
it lands, and so rows come up to eleven hours out of order. A carrier knows what it has in the air.
"""
