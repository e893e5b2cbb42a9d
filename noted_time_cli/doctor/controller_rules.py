"""Rules for a controller and a token."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime

from noted_time.answers.permissions import Grant
from noted_time.client import Json
from noted_time.installation import name_program
from noted_time.values import UNKNOWN_RELEASE, ZONE_PACKAGE, format_duration
from noted_time_cli.doctor.verdict import Finding, judge

DATE_MS = 2000  # an HTTP date has full seconds and is updated once a second

CLOCK_MS = 5000  # clocks set by NTP differ by less

UPGRADE_REMEDY = "upgrade, the controllers first: page 'Versions'"

ZONE_DATA_REMEDY = (
    f"upgrade the Python package {ZONE_PACKAGE} where the release is older, and restart there"
)

UNTRUSTED_ERROR = "certificate verify failed"


def judge_clock(date: str | None, sent_ms: int, received_ms: int) -> list[Finding]:
    """Compare a controller's clock, by the HTTP date of an answer, with this machine's clock.

    `sent_ms` and `received_ms` are Unix ms.

    >>> noon = "Tue, 01 Jan 2013 12:00:00 GMT"
    >>> [finding.fact for finding in judge_clock(noon, 1357041660000, 1357041660040)]
    ["the controller's clock is 58s behind this one or more (round trip 40ms)"]
    """
    if date is None:
        return [Finding("clock", "not checked", "the answer has no date", "see the proxy")]
    controller_ms = int(parsedate_to_datetime(date).timestamp()) * 1000
    min_lead_ms = controller_ms - received_ms
    max_lead_ms = controller_ms + DATE_MS - sent_ms
    direction = "ahead of" if min_lead_ms > 0 else "behind"
    min_gap = format_duration(max(min_lead_ms, -max_lead_ms))
    max_gap = format_duration(max(abs(min_lead_ms), abs(max_lead_ms)))
    trip = f"(round trip {received_ms - sent_ms}ms)"
    is_far = min_lead_ms > CLOCK_MS or max_lead_ms < -CLOCK_MS
    fault = f"the controller's clock is {min_gap} {direction} this one or more {trip}"
    faults = [(is_far, fault, "set both by NTP: writers note by theirs")]
    return judge("clock", faults, f"it differs from the controller's by at most {max_gap} {trip}")


def judge_versions(theirs: str, ours: str) -> list[Finding]:
    """Judge whether a client works with the controller, by their versions.

    >>> [judge_versions(theirs, "1.2.0")[0].outcome for theirs in ("1.2.1", "1.3.0", "1.4.0")]
    ['ok', 'ok', 'wrong']
    """
    major, minor = _read_version(theirs)
    own_major, own_minor = _read_version(ours)
    pair = f"controller {theirs}, this client {ours}"
    is_apart = major != own_major or abs(minor - own_minor) > 1
    faults = [(is_apart, f"{pair}: they are not made to work together", UPGRADE_REMEDY)]
    return judge("version", faults, pair)


def _read_version(version: str) -> tuple[int, int]:
    """Return major and minor version, or raise `ValueError`."""
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)


def judge_zone_data(theirs: str | None, ours: str | None) -> list[Finding]:
    """Compare the releases of zone data, which may read a time of a zone differently.

    >>> [judge_zone_data(theirs, "2026a")[0].outcome for theirs in ("2026a", "2025b", None)]
    ['ok', 'not checked', 'not checked']
    """
    pair = f"controller {theirs or UNKNOWN_RELEASE}, this client {ours or UNKNOWN_RELEASE}"
    if theirs is None or ours is None:
        return [Finding("zone data", "not checked", pair, ZONE_DATA_REMEDY)]
    if theirs != ours:
        fact = f"{pair}: laws of zones may differ"
        return [Finding("zone data", "not checked", fact, ZONE_DATA_REMEDY)]
    return [Finding("zone data", "ok", pair)]


def judge_database(risk: str | None) -> list[Finding]:
    """Judge the risk that a controller reports for its database.

    >>> [(finding.fact, finding.remedy) for finding in judge_database("fsync is off: set it to on")]
    [('fsync is off', 'set it to on')]
    """
    fact, _, remedy = (risk or "").rpartition(": ")
    fact_if_safe = "no damage, and no setting lets a power cut lose notes"
    return judge("database", [(risk, fact, remedy)], fact_if_safe)


def judge_token(access: Json, stream: str | None) -> list[Finding]:
    """Judge the rights of a token, on a stream if one is given.

    >>> own = {"tokens": True, "token": "5b", "administer": False, "write": [], "writers": ["*"]}
    >>> [finding.fact for finding in judge_token(own | {"read": ["eu.*"]}, "us.west")]
    ['token 5b permits: read eu.*; nothing on us.west']
    """
    if not access["tokens"]:
        fact_without_tokens = (
            "none is required: everyone who can reach the controller may do everything"
        )
        return judge("token", (), fact_without_tokens)
    grant = Grant.from_json({**access, "admin": access["administer"]})
    fact = f"token {access['token']} permits: {grant}"
    is_shut = stream and not (grant.may_read(stream) or grant.may_write(stream))
    remedy = f"{name_program()} token create --scope read --stream {stream}"
    faults = [(is_shut, f"{fact}; nothing on {stream}", remedy)]
    return judge("token", faults, fact)
