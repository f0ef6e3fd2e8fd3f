"""Bytes that may be no text, in JSON: as text, and as base64 where the text is not all there is to it."""

import base64
import binascii
from typing import Annotated

from pydantic import Field

from ringfence.kernel.errors import Invalid
from ringfence.kernel.http.endpoint import Fields

Base64 = Annotated[str, Field(pattern="^[A-Za-z0-9+/]*={0,2}$")]


class RawWord(Fields):
    base64: Base64 = Field(description="A word that is not UTF-8.")


def octets(given: str | RawWord) -> bytes:
    return given.encode() if isinstance(given, str) else decoded(given.base64)


def written(data: bytes) -> tuple[str, str | None]:
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return data.decode(errors="replace"), base64.b64encode(data).decode()


def decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise Invalid(f"this is not base64: {error}", code="invalid_base64") from None
