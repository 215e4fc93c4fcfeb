# SPDX-License-Identifier: Apache-2.0
"""A request of the API as the parameters of a URL: FastAPI takes a dataclass as a body, but not as a query."""

from collections.abc import Callable, Coroutine
from dataclasses import MISSING, fields
from typing import Annotated, Any, TypeVar, get_type_hints

from fastapi import Depends, Query
from pydantic import Field, create_model

T = TypeVar("T")


def from_query(shape: Callable[..., T]) -> Any:
    """The dependency of a route whose parameter is a ``shape``."""
    wanted: Any = shape
    hints = get_type_hints(wanted, include_extras=True)
    own: dict[str, Any] = {
        one.name: (hints[one.name], Field(... if one.default is MISSING else one.default, **one.metadata))
        for one in fields(wanted)
    }
    return Depends(reader(shape, create_model(wanted.__name__, **own)))


def reader(shape: Callable[..., T], model: Any) -> Callable[..., Coroutine[Any, Any, T]]:
    async def read(query: Annotated[model, Query()]) -> T:
        return shape(**{name: getattr(query, name) for name in model.model_fields})

    return read
