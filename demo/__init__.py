"""Real flights counted as they land: noted time against Spark's own watermark.

A carrier is a writer, and a flight an event of its departure, written when it lands. So rows are up
to eleven hours out of order, and a carrier knows its flights in the air.
"""
