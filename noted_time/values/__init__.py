"""Cuts, notes, marks, decisions, settings and errors. `noted_time` lists the public ones."""

from noted_time.values.calendar import *
from noted_time.values.claim import *
from noted_time.values.cut import *
from noted_time.values.decision import *
from noted_time.values.errors import *
from noted_time.values.fencing import *
from noted_time.values.note import *
from noted_time.values.parsing import *
from noted_time.values.service_clock import *
from noted_time.values.settings import *
from noted_time.values.spelling import *
from noted_time.values.times import *
from noted_time.values.writer_state import *
from noted_time.values.zones import *
