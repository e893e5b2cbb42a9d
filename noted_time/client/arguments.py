"""Refuse the URL of a controller among the names that a call begins with."""

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from noted_time.values import Rejected

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def refuse_url(
    order: str, url_pattern: str = "://"
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Refuse calls of a function with a URL as a name, and say the `order` of its arguments.

    >>> @refuse_url("stream, controller=")
    ... def read(stream: str, *, controller: str) -> str:
    ...     return f"{stream} of {controller}"
    >>> read("orders", controller="http://c:7464")
    'orders of http://c:7464'
    >>> read("http://c:7464", "orders")
    Traceback (most recent call last):
        ...
    noted_time.Rejected: 'http://c:7464' is a URL and not a name: the order is stream, controller=
    """

    def decorate(call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @wraps(call)
        def check_names(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            for name in (*args, kwargs.get("stream"), kwargs.get("writer")):
                if isinstance(name, str) and re.search(url_pattern, name, re.IGNORECASE):
                    url = name.rpartition("@")[2]  # without a password
                    fault = f"{url[:260]!r} is a URL and not a name"
                    raise Rejected(f"{fault}: the order is {order}")
            return call(*args, **kwargs)

        return check_names

    return decorate
