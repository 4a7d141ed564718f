"""How bodies are read and written: strictly in, always valid JSON out."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict


class RequestBody(BaseModel):
    """What a caller sends: no unknown fields, no conversions, no NaN."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


class ReplyBody(BaseModel):
    """What a caller gets."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="null")


Limit = Annotated[int, Query(ge=1, le=200)]
"""Page size."""
