"""The bases of every object that a command prints, and the models of what `printed` makes of the product's classes."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import cache, reduce
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from bufferlab.chapter.stopping import Reason
from bufferlab.models.foreign_trace import PlayedTrace
from bufferlab.report.document import Report
from bufferlab.report.json_output import FORMAT_VERSION, names_of
from bufferlab.results.check_parts import Check
from bufferlab.results.page_traces import Prediction, Verdict
from bufferlab.results.schema import StoredSetting
from bufferlab.stats.estimate import Estimate
from bufferlab.stats.verdict import Direction

Number = float | None


class Document(BaseModel):
    """The base of every object: a key that is not declared here would be undocumented."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Printed(Document):
    """The base of what a command prints."""

    format_version: Literal[FORMAT_VERSION]  # type: ignore[valid-type]
    """Of this object; later versions add keys and rename none."""


_Base = TypeVar("_Base", bound=Document)


def of_keys(name: str, doc: str, keys: Mapping[str, Any], optional: bool = False) -> type[Printed]:
    """Return the type of an object with these keys."""
    ends = {"default": None} if optional else {}
    # A model has an attribute of the name "schema" already.
    fields: dict[str, Any] = {
        f"{key}_" if key == "schema" else key: (_as_json(kind), Field(alias=key, **ends)) for key, kind in keys.items()
    }
    return _made(name, Printed, doc, fields)


def of_answer(name: str, doc: str, data: type) -> type[Printed]:
    """Return the type of an answer with these data."""
    return _made(name, Printed, doc, _fields(Report) | _fields(data))


@cache
def model_of(kind: type) -> type[Document]:
    """Return the type of the JSON that `printed` makes of a class; names and docstrings are those of the class."""
    return _made(kind.__name__, Document, inspect.getdoc(kind), _fields(kind))


def _made(name: str, base: type[_Base], doc: str | None, fields: dict[str, Any]) -> type[_Base]:
    # The fields have their descriptions already; otherwise pydantic would look for them in the source of each caller.
    return create_model(name, __base__=base, __doc__=doc, __cls_kwargs__={"use_attribute_docstrings": False}, **fields)


def _fields(kind: type) -> dict[str, Any]:
    found = {}
    for path in names_of(kind) or ():
        *steps, name = path.split(".")
        owner = reduce(_annotation, steps, kind)
        told = {name: doc for one in reversed(owner.__mro__[:-1]) for name, doc in _docs(one).items()}
        member = inspect.getattr_static(owner, name, None)
        of = getattr(member, "fget", None) or getattr(member, "func", None) or member
        if inspect.isfunction(of):
            hint, doc = _evaluated(of.__annotations__["return"], of), inspect.getdoc(of)
        else:
            hint, doc = _annotation(owner, name), told.get(name)
        found[name] = (_as_json(hint), Field(description=doc))
    return found


def _annotation(kind: type, name: str) -> Any:
    # A plain class declares the types of its attributes in its constructor.
    places = [(one, of) for one in kind.__mro__ for of in (vars(one).get("__annotations__", {}),
              getattr(vars(one).get("__init__"), "__annotations__", {}))]  # fmt: skip
    owner, told = next((one, of) for one, of in places if name in of)
    return _evaluated(told[name], owner)


def _evaluated(text: Any, owner: Any) -> Any:
    return eval(text, {**_NAMES, **vars(sys.modules[owner.__module__])}) if isinstance(text, str) else text


#: Names that modules import only for their types.
_NAMES: dict[str, Any] = {
    one.__name__: one for one in (Prediction, Verdict, StoredSetting, Check, Estimate, PlayedTrace)
}
_NAMES |= {"Mapping": Mapping, "Sequence": Sequence, "Direction": Direction, "Reason": Reason}


@cache
def _docs(kind: type) -> dict[str, str]:
    """Return the docstrings of a class's fields."""
    place: ast.Module | ast.ClassDef = _tree(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = [one for one in place.body if isinstance(one, ast.ClassDef) and one.name == name]
        if not found:
            return {}
        place = found[-1]
    docs = {}
    for field, doc in zip(place.body, place.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            docs[field.target.id] = inspect.cleandoc(str(doc.value.value))
    return docs


@cache
def _tree(module: str) -> ast.Module:
    try:
        return ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):
        return ast.Module([], [])


def _as_json(kind: Any) -> Any:
    """Return the type of the JSON that `printed` makes of a value of this type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _as_json(inner[0])
    if origin in (Union, UnionType):
        return Union[tuple(_as_json(one) for one in inner)]  # noqa: UP007
    if origin is Literal or kind in (Any, object, str, int, float, bool, None, NoneType):
        return Any if kind is object else kind
    if origin is tuple and inner[-1:] != (...,):
        return tuple[tuple(_as_json(one) for one in inner)]  # type: ignore[misc]
    if origin and issubclass(origin, Mapping):
        return dict[str, _as_json(inner[1])]  # type: ignore[misc]
    if origin and issubclass(origin, (Sequence, frozenset)):
        return list[_as_json(inner[0])]  # type: ignore[misc]
    if issubclass(kind, Path | datetime):
        return str
    if issubclass(kind, Enum):
        return Literal[tuple(one.value for one in kind)]
    if issubclass(kind, Document):
        return kind
    return model_of(kind)
