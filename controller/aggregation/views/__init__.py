"""Views of a stream: explained decisions, members, segments and figures."""
