"""A parameter class as rows for people: name, type, default, documentation."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from components.contract.operators import OperatorSpec
from components.contract.slots import Slot


def describe_fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Yield (name, type, default, documentation) of each parameter; nested ones with dotted names."""
    for name, info in model.model_fields.items():
        nested = info.annotation
        if inspect.isclass(nested) and issubclass(nested, BaseModel) and nested is not OperatorSpec:
            yield from describe_fields(nested, f"{prefix}{name}.")
        else:
            doc = " ".join((info.description or "").split())
            yield f"{prefix}{name}", _type_text(info), _default_text(info), doc


def _type_text(info: FieldInfo) -> str:
    slots = [part for part in info.metadata if isinstance(part, Slot)]
    return _annotation_text(Annotated[info.annotation, slots[0]] if slots else info.annotation)


def _annotation_text(annotation: Any) -> str:
    if annotation is type(None):
        return "null"
    if get_origin(annotation) is Annotated:  # the documentation gives the bounds, not the type
        plain, *metadata = get_args(annotation)
        slot = next((f"{part} " for part in metadata if isinstance(part, Slot)), "")
        return _annotation_text(plain).replace("operator", f"{slot}operator")
    if inspect.isclass(annotation) and not get_args(annotation):
        words = {"OperatorSpec": "operator", "str": "text", "bool": "true/false", "int": "int", "float": "number"}
        return words.get(annotation.__name__, annotation.__name__)
    text = str(annotation)
    if "Literal[" in text and text.startswith("typing.Literal"):
        return " | ".join(map(str, get_args(annotation)))
    parts = [_annotation_text(part) for part in get_args(annotation) if part is not Ellipsis]
    if get_origin(annotation) in (Union, UnionType):
        return " | ".join(parts)
    origin = text.partition("[")[0].rpartition(".")[2]
    if origin in ("list", "tuple", "set", "frozenset"):
        return f"list of {parts[0]}" if len(set(parts)) == 1 else f"[{', '.join(parts)}]"
    return f"{origin}[{', '.join(parts)}]" if parts else origin


def _default_text(info: FieldInfo) -> str:
    default = info.get_default(call_default_factory=True, validated_data={})
    return "required" if default is PydanticUndefined else str(to_jsonable_python(default))
