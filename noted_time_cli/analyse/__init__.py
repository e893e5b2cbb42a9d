"""`noted-time analyse`: compute the cost of watermark delays on an existing log.

Commands import most modules when they run, because these need the extra `analyse`.
"""
