"""The time domains of a stream: which writers hold each back, and how it advances."""

from noted_time.rules.domain.domain import Domain
from noted_time.rules.domain.domains import Domains
