"""`noted-time analyse`: what a delay costs on a log that is there, before anybody changes anything.

The modules that read, judge and draw need the extra `analyse`: a command imports them when it runs.
"""
