"""Performs scenarios in text: acts, and behind an arrow the answer to an act."""

import re
from collections.abc import Iterable

import pytest
from pyspark.errors import PySparkException

from noted_time import NotedTimeError
from tests.core.test_scenarios import parse_words
from tests.support.paragraphs import is_answer


class Scenario:
    """Performs each act by the method of its first word, of this object or of its `subject`.

    The method returns the answer. An error is an answer, too: its name and its text. Acts without
    answers share a line, between semicolons.
    """

    subject: object
    expected = ""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def play(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._perform(line)

    def logged(self, *words: object) -> str:
        """Return the messages with these words."""
        sought = " ".join(str(word) for word in words)
        return "; ".join(message for message in self._caplog.messages if sought in message) or "-"

    def _perform(self, line: str) -> None:
        acts, has_answer, expected = re.sub(r"\n +", " ", line).partition(" -> ")
        *before, last = acts.split("; ")
        for act in before:
            self._act(act)
        self.expected = expected
        try:
            answer = self._act(last)
        except (NotedTimeError, PySparkException) as error:
            if not has_answer:
                raise
            answer = f"{type(error).__name__}: {error}"
        assert not has_answer or is_answer(expected, str(answer)), (line, answer)

    def _act(self, act: str) -> object:
        verb, *words = act.split()
        values, options = parse_words(words)
        performer = self if hasattr(self, verb) else self.subject
        return getattr(performer, verb)(*values, **options)
