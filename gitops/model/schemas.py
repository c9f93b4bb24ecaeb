"""JSON Schemas (draft 2020-12) of the documents people write, for editors and for checks outside of this product.

Made from the models, so that a schema accepts what the reader accepts: no unknown field, no other type. A field that
this version refuses is refused by the schema too. What no schema can say (names that must match, files that must
exist) `gitops validate` says.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from gitops.model.document_kinds import KINDS
from gitops.model.documents import Document, Use, use_of, written_name

_WORDS = {
    Use.APPLIED: "Applied: it changes what runs.",
    Use.CHECKED: "Checked: it only refuses.",
    Use.RECORDED: "Recorded: kept and shown, does nothing yet.",
    Use.REFUSED: "Refused: this version does not support it.",
}


def schema_of(kind: str) -> dict[str, Any]:
    """The schema of one kind of document. Raises KeyError for a kind that is not in KINDS."""
    made = KINDS[kind].model_json_schema(schema_generator=_Generator)
    return {"$schema": _Generator.schema_dialect, **made}


def schema_file(kind: str) -> str:
    """Name of the file that a schema is written to: `functiondeployment.json`."""
    return f"{kind.lower()}.json"


def schema_text(kind: str) -> str:
    """The schema of one kind as the text of a file. Raises KeyError for a kind that is not in KINDS."""
    return json.dumps(schema_of(kind), indent=2, ensure_ascii=False) + "\n"


class _Generator(GenerateJsonSchema):
    """pydantic's schemas, with what each field is used for as the last sentence of its description."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # a title made of the name says nothing more than the name

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        if "description" in made:
            made["description"] = " ".join(made["description"].split())
        model: type[Document] = schema["cls"]
        for name, info in model.model_fields.items():
            use = use_of(model, name)
            written = written_name(model, name)
            field: JsonSchemaValue = {"not": {}} if use is Use.REFUSED else made["properties"][written]
            text = " ".join((info.description or "").split())
            field["description"] = f"{text} {_WORDS[use]}".lstrip()
            made["properties"][written] = field
        return made
