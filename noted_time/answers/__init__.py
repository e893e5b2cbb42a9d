"""The controller's answers, declared once for the controller, OpenAPI and clients."""

from noted_time.answers.group_answers import *
from noted_time.answers.mark_answers import *
from noted_time.answers.note_answers import *
from noted_time.answers.overviews import *
from noted_time.answers.stream_answers import *
from noted_time.answers.writer_answers import *
from noted_time.verdict import Completeness as Completeness
