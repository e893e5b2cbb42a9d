"""The command line: run or call a controller, observe a log, relay marks."""
