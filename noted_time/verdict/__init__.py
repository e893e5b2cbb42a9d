"""Judges completeness once, for controllers, clients, tables and pages."""

from noted_time.verdict.claimed import *
from noted_time.verdict.completeness import *
from noted_time.verdict.judging import *
from noted_time.verdict.words import *
