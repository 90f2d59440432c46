"""What every record is made of: the frozen base type, plain scalars and digests. No torch; everyone may import it."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel, ConfigDict

Scalar = bool | int | float | str


def digest(*parts: str | bytes) -> str:
    """SHA-256 over length-prefixed parts, 16 hex digits: names contents in the store."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()[:16]


class Frozen(BaseModel):
    """Base of every record: immutable, unknown fields refused, field docstrings go to the JSON schema."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, ser_json_inf_nan="strings")
