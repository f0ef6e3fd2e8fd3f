"""The OpenAPI 3.1 document, made from the endpoints themselves."""

import re
from typing import Any

from pydantic import TypeAdapter

import ringfence
from ringfence.kernel.http.endpoint import Access, Endpoint, Fields

_PART = re.compile(r"\{(\w+)(?::\w+)?\}")
_REF = "#/components/schemas/{model}"

PROBLEM = {
    "type": "object",
    "description": "What went wrong, in a sentence (`detail`, and `error` for older clients) and as a stable `code`.",
    "required": ["type", "title", "status", "detail", "code", "error", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "error": {"type": "string"},
        "request_id": {"type": "string"},
    },
}

_MEANINGS = {
    "400": "The request is wrong, or a rule of the board refuses it.",
    "401": "Nobody we know.",
    "403": "Not for you.",
    "404": "No such thing.",
    "408": "The body took too long to arrive.",
    "409": "Not as things stand.",
    "413": "Too many bytes.",
    "422": "This host, or this runtime, cannot do that: the sentence says what would.",
    "429": "Too often: repeat after `Retry-After` seconds.",
    "503": "Not now.",
    "507": "The disk is full.",
}


def document(endpoints: list[Endpoint]) -> dict[str, Any]:
    schemas: dict[str, Any] = {"Problem": PROBLEM}
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        path = _PART.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ringfence",
            "version": ringfence.__version__,
            "description": "The documented paths of the hub are at the root, Ringfence's own under /api/v1.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": tag} for tag in sorted({endpoint.tag for endpoint in endpoints})],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "ringfence_8080"},
            },
        },
        "security": [{"token": []}, {"session": []}],
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(endpoint),
        "summary": endpoint.summary,
        "description": f"{endpoint.description}\n\nFor {endpoint.access.value}.".strip(),
        "tags": [endpoint.tag],
        "parameters": _parameters(endpoint, schemas),
        "responses": _responses(endpoint, schemas),
    }
    if endpoint.access is Access.OPEN:
        operation["security"] = []
    if endpoint.upload:
        form = {
            "type": "object",
            "required": ["file"],
            "properties": {"file": {"type": "string", "format": "binary"}, "uploader": {"type": "string"}},
        }
        operation["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": form}}}
    elif endpoint.raw:
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": False, "content": content}
    elif endpoint.body is not None and endpoint.body.model_fields:
        required = any(field.is_required() for field in endpoint.body.model_fields.values())
        content = {"application/json": {"schema": _schema(endpoint.body, schemas, "validation")}}
        operation["requestBody"] = {"required": required, "content": content}
    return operation


def _operation_id(endpoint: Endpoint) -> str:
    parts = [part for part in re.split(r"[^A-Za-z0-9]+", endpoint.path) if part]
    return "_".join([endpoint.method.lower(), *parts])


def _parameters(endpoint: Endpoint, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PART.findall(endpoint.path)
    ]
    properties = _inline(endpoint.query, schemas)
    required = {name for name, field in endpoint.query.model_fields.items() if field.is_required()}
    for name, schema in properties.items():
        parameters.append({"name": name, "in": "query", "required": name in required, "schema": schema})
    if endpoint.creates:
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "A repeat with the same key is answered as the first was, and changes nothing.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
            }
        )
    return parameters


def _inline(model: type[Fields], schemas: dict[str, Any]) -> dict[str, Any]:
    schema = model.model_json_schema(ref_template=_REF)
    schemas.update(schema.get("$defs", {}))
    return dict(schema.get("properties", {}))


def _responses(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, answers in {endpoint.status: endpoint.answers, **endpoint.also}.items():
        body = {} if answers is None else _schema(_listed(endpoint, answers), schemas, "serialization")
        responses[str(status)] = {
            "description": "Done." if status < 300 else "See there.",
            "content": {endpoint.media: {"schema": body}},
        }
        if status in (303, 204):
            responses[str(status)].pop("content")
    problem = {"application/problem+json": {"schema": {"$ref": _REF.format(model="Problem")}}}
    for status_text, meaning in _MEANINGS.items():
        if endpoint.access is Access.OPEN and status_text == "429":
            continue
        responses.setdefault(status_text, {"description": meaning, "content": problem})
    return responses


class Listed:
    """Marks `answers=Listed(Item)`: a Page of items."""

    def __init__(self, item: Any) -> None:
        self.item = item


def _listed(endpoint: Endpoint, answers: Any) -> Any:
    if not isinstance(answers, Listed):
        return answers
    if not endpoint.path.startswith("/api/"):
        return list[answers.item]
    return answers


def _schema(kind: Any, schemas: dict[str, Any], mode: Any) -> dict[str, Any]:
    if isinstance(kind, Listed):
        items = _schema(kind.item, schemas, mode)
        properties = {"items": {"type": "array", "items": items}, "next": {"type": ["string", "null"]}}
        return {"type": "object", "required": ["items", "next"], "properties": properties}
    schema = TypeAdapter(kind).json_schema(ref_template=_REF, mode=mode)
    schemas.update(schema.pop("$defs", {}))
    name = getattr(kind, "__name__", None)
    if schema.get("type") == "object" and name and name not in ("dict", "list"):
        if schemas.setdefault(name, schema) != schema:
            raise ValueError(f"two types of answers are called {name}: give one another name")
        return {"$ref": _REF.format(model=name)}
    return schema
