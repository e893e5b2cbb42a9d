"""At which URL others call a replica."""

import pytest

from controller.api.server import to_call
from noted_time import Rejected


@pytest.mark.parametrize(
    ("url", "called"),
    [
        ("http://replica-1:7464", "http://replica-1:7464"),
        ("https://replica-1/", "https://replica-1"),
        ("http://[::1]:7464", "http://[::1]:7464"),
        ("http://gateway/replica-1/", "http://gateway/replica-1"),
    ],
)
def test_others_call_by_the_url_that_is_advertised(url: str, called: str) -> None:
    """A slash at its end is removed, as paths are appended."""
    assert to_call(url) == called


@pytest.mark.parametrize(
    "url",
    [
        "",
        "replica-1",
        "replica-1:7464",
        "ftp://replica-1",
        "http://",
        "http:///v1",
        "http://[::1",
        "http://replica-1:port",
        "http://replica-1?x=1",
        "http://replica-1#x",
        "http://user:secret@replica-1",
        "http://replica-1\n:7464",
    ],
)
def test_an_unreachable_address_is_not_advertised(url: str) -> None:
    """It is refused with a sentence, before anything is served."""
    with pytest.raises(Rejected, match="--advertise"):
        to_call(url)


def test_a_password_in_what_is_advertised_is_not_repeated() -> None:
    """What is refused is logged."""
    with pytest.raises(Rejected) as refused:
        to_call("http://ops:secret@a:7464")

    message = "--advertise must not contain a user or password: leave out the part before the @"
    assert str(refused.value) == message
