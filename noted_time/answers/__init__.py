"""The controller's answers, declared once for the controller, OpenAPI and clients."""

from noted_time.answers.json_fields import is_inline, list_fields, list_own_fields
from noted_time.answers.reader_answers import CompleteWindowsPage, CutAnswer, MarksAnswer
