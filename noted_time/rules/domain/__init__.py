"""The time domains of a stream: who holds each of them back, and how its watermark advances."""

from noted_time.rules.domain.domain import Domain
from noted_time.rules.domain.domains import Domains
