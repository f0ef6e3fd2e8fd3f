"""What the SDK asks and expects is what the server's own document says."""

import inspect
import re
from typing import Any

import pytest
from pydantic import TypeAdapter

from ringfence import AgentClient, Client
from ringfence.app import build
from ringfence.kernel.http.openapi import document
from ringfence.sdk import views
from ringfence.sdk.asking import Items
from ringfence.sdk.calls import Call, Json, Repeat
from ringfence.sdk.steps import Send, operation
from ringfence.settings import Settings

VALUES: dict[str, Any] = {
    "handler": print,
    "limit": 5,
    "capabilities": ["code"],
    "tags": ["code"],
    "content": b"bytes",
    "metadata": {"a": 1},
    "labels": ["l"],
    "required_capabilities": ["code"],
    "depends_on": ["tsk_1"],
    "required_reviewers": 2,
    "expires_in": 5.0,
    "scopes": ["coordinator"],
    "projects": ["prj_1"],
    "uses": 2,
    "days": 3,
    "freeze": False,
    "flush": False,
    "newest_first": False,
    "unread": True,
    "unread_only": True,
    "auto_ack": True,
    "max_messages": 1,
    "timeout_seconds": 1.0,
    "poll_interval": 1.0,
}


@pytest.fixture(scope="module")
def openapi(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    house = build(Settings(data=tmp_path_factory.mktemp("data")))
    return document(house.endpoints)


OPERATIONS = [
    pytest.param(kind, found, id=f"{kind.__name__}.{name}")
    for kind in (AgentClient, Client)
    for name, found in inspect.getmembers(kind, lambda found: isinstance(found, operation))
]


def _value(one: inspect.Parameter) -> Any:
    if "Mapping[str, str]" in str(one.annotation):
        return {"a": "b"}
    return f"some-{one.name}" if one.annotation is str else VALUES.get(one.name, f"some-{one.name}")


def _first_call(kind: type, found: operation[Any, Any]) -> Call[Any]:
    """What the operation asks first, when it is given all its arguments."""
    client = AgentClient("http://hub", "claude", "codex") if kind is AgentClient else Client("http://hub")
    given = {one.name: _value(one) for one in list(inspect.signature(found).parameters.values())[1:]}
    step = next(found.steps(client, **given))
    assert isinstance(step, Send)
    return step.call


@pytest.mark.parametrize(("kind", "found"), OPERATIONS)
def test_every_call_is_one_that_the_server_documents(
    kind: type, found: operation[Any, Any], openapi: dict[str, Any]
) -> None:
    call = _first_call(kind, found)
    documented = _documented(call, openapi)
    parameters = {one["name"]: one for one in documented["parameters"]}
    assert {name for name, value in call.query.items() if value is not None} <= parameters.keys()
    assert (call.repeat is Repeat.KEYED) <= ("Idempotency-Key" in parameters)
    if call.method == "POST" and "Idempotency-Key" in parameters and call.upload is None:
        assert call.repeat is Repeat.KEYED, "the server knows a repeat of this by its key"
    bodies = documented.get("requestBody", {}).get("content", {})
    if call.upload is not None:
        assert set(call.body or {}) | {"file"} <= bodies["multipart/form-data"]["schema"]["properties"].keys()
    elif call.body:
        schema = _resolved(bodies["application/json"]["schema"], openapi)
        assert call.body.keys() <= schema["properties"].keys()
        assert set(schema.get("required", [])) <= call.body.keys()


def _documented(call: Call[Any], openapi: dict[str, Any]) -> dict[str, Any]:
    fixed = [path for path in openapi["paths"] if path == call.path]
    matching = [path for path in openapi["paths"] if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), call.path)]
    for path in (*fixed, *matching):
        if call.method.lower() in openapi["paths"][path]:
            found: dict[str, Any] = openapi["paths"][path][call.method.lower()]
            return found
    raise AssertionError(f"the server has no {call.asked}")


def _resolved(schema: dict[str, Any], openapi: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = openapi["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


@pytest.mark.parametrize(("kind", "found"), OPERATIONS)
def test_every_answer_has_the_fields_that_the_server_documents(
    kind: type, found: operation[Any, Any], openapi: dict[str, Any]
) -> None:
    call = _first_call(kind, found)
    if not isinstance(call.reads, Json | Items):
        return  # a file's bytes, or nothing that is looked at
    answers = {
        status: next(iter(answer["content"].values()))["schema"]
        for status, answer in _documented(call, openapi)["responses"].items()
        if status < "300"
    }
    returns = str(inspect.signature(found).return_annotation)
    if "202" in answers and answers["202"] in (answers.get("200"), answers.get("201")):
        del answers["202"]  # the same, before all of it is done
    assert ("202" in answers) == ("Proposed" in returns) or "bool" in returns
    if "202" in answers:
        assert _shape_of(views.Proposed) == _shape(answers.pop("202"), openapi)
    (schema,) = answers.values()
    theirs = _shape(schema, openapi)
    if isinstance(call.reads, Items):
        theirs = theirs[0] if isinstance(theirs, list) else theirs["items"][0]
    if call.reads.kind is views.Done and theirs == {}:
        return  # `{"ok": true}`, which nobody looks at
    assert _shape_of(call.reads.kind) == theirs


def _shape_of(kind: Any) -> Any:
    schema = TypeAdapter(kind).json_schema()
    return _shape(schema, {"components": {"schemas": schema.get("$defs", {})}})


def _shape(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    """What JSON has this schema: fields with their shapes, a list of one shape, or the names of types."""
    schema = _resolved(schema, document)
    if "anyOf" in schema:
        shapes = [_shape(one, document) for one in schema["anyOf"]]
        return {"any of": sorted(map(repr, shapes))}
    if schema.get("type") == "array":
        return [_shape(schema["items"], document)]
    if schema.get("type") != "object":
        return schema.get("type")
    if isinstance(values := schema.get("additionalProperties"), dict):
        return {"*": _shape(values, document)}
    return {name: _shape(one, document) for name, one in schema.get("properties", {}).items()}
