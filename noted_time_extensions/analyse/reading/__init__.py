"""Reads the rows to judge, from files, file logs and topics."""
