"""Encodes values as JSON, and decodes them."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from noted_time.values.cut import StreamCut


def _encode_cut(value: object) -> dict[int, int]:
    if isinstance(value, StreamCut):
        return dict(sorted(value.offsets.items()))
    raise NotImplementedError


def _decode_cut(kind: Any, offsets: object) -> StreamCut:  # noqa: ANN401 - a type
    if kind is not StreamCut:
        raise NotImplementedError
    return StreamCut(msgspec.convert(offsets, dict[int, int], str_keys=True))


encode = msgspec.json.Encoder(enc_hook=_encode_cut).encode


@cache
def build_decoder(kind: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401 - a type
    return msgspec.json.Decoder(kind, dec_hook=_decode_cut)
