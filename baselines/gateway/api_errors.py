"""Errors in the form of the OpenAI API, and the checks of parameters that raise them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response


class ApiError(Exception):
    """An error in the form of the OpenAI API.

    Args:
        status: Status of the response.
        kind: Its `type`, like "invalid_request_error".
        message: Text for the client.
        param: Parameter that is wrong, if it is one.
        code: Short name of the error, if it has one.
    """

    def __init__(
        self, status: int, kind: str, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


async def shown(request: Request, error: Exception) -> Response:
    """Return the response of an error that a handler raised."""
    if isinstance(error, HTTPException):
        kind = "invalid_request_error" if error.status_code < 500 else "server_error"
        error = ApiError(error.status_code, kind, str(error.detail))
    assert isinstance(error, ApiError)
    return JSONResponse(error.body, error.status)


SHOWN: Mapping[Any, Any] = {HTTPException: shown, ApiError: shown}
"""Exception handlers of an application."""


def refuse(param: str, message: str, code: str | None = None) -> NoReturn:
    """Raise the error of a wrong parameter."""
    raise ApiError(400, "invalid_request_error", message, param=param, code=code)


def read_json(data: bytes) -> Mapping[str, Any]:
    """Return the object of a body.

    Raises:
        ApiError: It is no JSON object.
    """
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "invalid_request_error", f"the body is not JSON: {error}") from error
    if not isinstance(body, Mapping):
        raise ApiError(400, "invalid_request_error", f"wanted a JSON object, found {type(body).__name__}")
    return body


def number(body: Mapping[str, Any], name: str) -> float | None:
    """Return a finite number of a body; None where it is missing.

    Raises:
        ApiError: It is something else.
    """
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        refuse(name, f"{name}: found {value!r:.80}, wanted a finite number")
    return float(value)


def whole(body: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number of a body, >= 1 unless it is the seed; None where it is missing.

    Raises:
        ApiError: It is something else.
    """
    value = body.get(name)
    if value is not None and (type(value) is not int or abs(value) >= 2**63 or (name != "seed" and value < 1)):
        refuse(name, f"{name}: found {value!r:.80}, wanted a whole number{'' if name == 'seed' else ' >= 1'}")
    return value
