"""Encodes values as JSON, and decodes them."""

from __future__ import annotations

import os
from functools import cache
from threading import Lock
from typing import Any

import msgspec

from noted_time.values.cut import StreamCut
from noted_time.values.errors import Rejected


def _encode_cut(value: object) -> dict[int, int]:
    if isinstance(value, StreamCut):
        return dict(sorted(value.offsets.items()))
    raise NotImplementedError


def _decode_cut(kind: Any, offsets: object) -> StreamCut:  # noqa: ANN401 - a type
    if kind is not StreamCut:
        raise NotImplementedError
    try:
        return StreamCut(msgspec.convert(offsets, dict[int, int], str_keys=True))
    except (msgspec.ValidationError, Rejected) as odd:
        raise ValueError(odd) from odd  # msgspec adds the field's path


DECODE_ERRORS = (msgspec.DecodeError, Rejected, ValueError, RecursionError)

encode = msgspec.json.Encoder(enc_hook=_encode_cut).encode


def convert_to_json(value: object) -> Any:  # noqa: ANN401 - any JSON
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_cut)


_BUILDING_LOCK = Lock()
"""Held while a decoder is built.

msgspec 0.22 shows the description of a struct to other threads before it is whole. A thread that
decodes by it, or a child process that inherits it, crashes.
"""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_BUILDING_LOCK.acquire,
        after_in_parent=_BUILDING_LOCK.release,
        after_in_child=_BUILDING_LOCK.release,
    )


@cache
def build_decoder(kind: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401 - a type
    """Return the decoder of a type. Threads may call this at the same time."""
    with _BUILDING_LOCK:
        return msgspec.json.Decoder(kind, dec_hook=_decode_cut)


def convert_from_json(value: object, kind: Any, *, str_keys: bool = True) -> Any:  # noqa: ANN401 - a type and its value
    """Return plain JSON as a value of a type. Threads may call this at the same time.

    Raises `msgspec.ValidationError`.
    """
    build_decoder(kind)  # describes the type
    return msgspec.convert(value, kind, str_keys=str_keys)
