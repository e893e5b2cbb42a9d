"""Encodes values as JSON, and decodes them."""

from __future__ import annotations

from functools import cache
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


@cache
def build_decoder(kind: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401 - a type
    return msgspec.json.Decoder(kind, dec_hook=_decode_cut)
