"""The document says what runs: it is valid, complete, and what is answered is what it promises."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from pydantic import TypeAdapter
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR
from typing_extensions import TypedDict

from ringfence.kernel.http.endpoint import Access, Api, Call, Fields
from ringfence.kernel.http.openapi import document
from tests.harness import Ringfence, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Ringfence]:
    with running(tmp_path_factory.mktemp("openapi"), template) as found:
        yield found


@pytest.fixture(scope="module")
def openapi(server: Ringfence) -> dict[str, Any]:
    found: dict[str, Any] = server.client().get("/openapi.json").json()
    return found


def everything(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from everything(inner)


def operations(openapi: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_the_document_is_valid_openapi_3_1(openapi: dict[str, Any]) -> None:
    assert openapi["openapi"] == "3.1.0"
    OPENAPI_31_VALIDATOR.validate(openapi)


def test_every_schema_is_valid_and_every_reference_leads_somewhere(openapi: dict[str, Any]) -> None:
    for schema in openapi["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)
    for node in everything(openapi):
        if isinstance(node.get("$ref"), str):
            name = node["$ref"].removeprefix("#/components/schemas/")
            assert name in openapi["components"]["schemas"], node["$ref"]


def test_every_endpoint_is_in_the_document_once(server: Ringfence, openapi: dict[str, Any]) -> None:
    declared = {(endpoint.method, re.sub(r":\w+}", "}", endpoint.path)) for endpoint in server.house.endpoints}
    assert {(method, path) for method, path, _ in operations(openapi)} == declared
    names = [operation["operationId"] for _, _, operation in operations(openapi)]
    assert len(set(names)) == len(names)


def test_every_operation_says_what_it_does_for_whom_and_how_it_fails(openapi: dict[str, Any]) -> None:
    for method, path, operation in operations(openapi):
        where = f"{method} {path}"
        assert operation["summary"], where
        assert "For " in operation["description"], where
        in_path = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path)), where
        assert any(status.startswith(("2", "3")) for status in operation["responses"]), where
        for status in ("400", "401", "403", "404", "409", "413", "503", "507"):
            assert status in operation["responses"], where


def conforms(openapi: dict[str, Any], method: str, path: str, answer: Any) -> None:
    """Whether an answer is what the document says of that operation and status."""
    operation = openapi["paths"][path][method.lower()]
    said = operation["responses"].get(str(answer.status_code))
    assert said is not None, f"{method} {path} is not documented to answer {answer.status_code}: {answer.text[:200]}"
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if "content" not in said:
        assert answer.content == b"" or answer.status_code == 303
        return
    assert kind in said["content"], f"{method} {path} answered {kind}, documented are {list(said['content'])}"
    schema = said["content"][kind]["schema"]
    if kind.endswith("json") and schema:
        jsonschema_rs.validator_for({**schema, "components": openapi["components"]}).validate(answer.json())


def test_what_every_reading_endpoint_answers_is_what_is_documented(server: Ringfence, openapi: dict[str, Any]) -> None:
    """With nothing there, and with ids that do not exist; the rooms' own tests check the full answers."""
    checked = 0
    for method, path, _ in operations(openapi):
        if method != "GET" or path in ("/events", "/api/v1/events"):
            continue
        answer = server.admin.get(re.sub(r"{\w+}", "nothing", path), follow_redirects=False)
        conforms(openapi, method, path, answer)
        checked += 1
    assert checked > 30


def test_what_the_kernel_answers_is_what_is_documented(server: Ringfence, openapi: dict[str, Any]) -> None:
    calls: list[tuple[str, str, dict[str, Any] | None]] = [
        ("POST", "/ping", None),
        ("POST", "/api/v1/people", {"name": "ann", "role": "operator", "projects": ["prj_a"]}),
        ("POST", "/api/v1/people", {"name": "ann"}),
        ("POST", "/api/v1/people", {"nome": "ann"}),
        ("GET", "/api/v1/people", None),
        ("POST", "/api/v1/tokens", {"name": "ci", "role": "viewer", "days": 0}),
        ("POST", "/api/v1/enrolments", {"uses": 3, "scopes": ["coordinator"]}),
        ("POST", "/api/v1/signin-links", {"person": "ann"}),
        ("POST", "/api/v1/signin-links", {"person": "nobody"}),
        ("GET", "/api/v1/tokens", None),
        ("GET", "/api/v1/me", None),
        ("GET", "/audit/log", None),
        ("GET", "/api/v1/audit", None),
        ("GET", "/api/v1/audit/verify", None),
        ("POST", "/api/v1/audit/prune", {"days": 1}),
    ]
    for method, path, body in calls:
        conforms(openapi, method, path, server.admin.request(method, path, json=body))
    changed = server.admin.patch("/api/v1/people/ann", json={"role": "viewer"})
    conforms(openapi, "PATCH", "/api/v1/people/{name}", changed)
    issued = server.admin.get("/api/v1/tokens").json()["items"][-1]["id"]
    conforms(openapi, "DELETE", "/api/v1/tokens/{token_id}", server.admin.delete(f"/api/v1/tokens/{issued}"))
    conforms(openapi, "GET", "/api/v1/me", server.client().get("/api/v1/me"))
    conforms(
        openapi,
        "GET",
        "/api/v1/config",
        server.client(server.agent("claude").headers["authorization"][7:]).get("/api/v1/config"),
    )


def test_a_number_for_the_page_size_leads_through_all_pages(server: Ringfence) -> None:
    for number in range(7):
        server.admin.post("/api/v1/tokens", json={"name": f"page{number}"})
    whole = [token["id"] for token in server.admin.get("/api/v1/tokens?limit=1000").json()["items"]]
    for limit in (1, 2, 3, len(whole), len(whole) + 1):
        found: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = server.admin.get("/api/v1/tokens", params={"limit": limit, "cursor": cursor}).json()
            assert len(page["items"]) <= limit
            found += [token["id"] for token in page["items"]]
            cursor = page["next"]
        assert found == whole


def test_two_answers_of_one_name_are_noticed() -> None:
    def named(fields: dict[str, Any]) -> Any:
        return TypedDict("Same", fields)  # type: ignore[operator]

    api = Api("test")
    for number, answers in enumerate((named({"a": int}), named({"b": str}))):
        assert TypeAdapter(answers)

        @api.route("GET", f"/{number}", access=Access.OPEN, answers=answers)
        async def handler(call: Call[Fields, Fields]) -> None:
            """Nothing."""

    with pytest.raises(ValueError, match="two types of answers are called Same"):
        document(api.endpoints)


def test_the_document_is_the_same_for_everybody_and_json(server: Ringfence, openapi: dict[str, Any]) -> None:
    assert json.loads(server.admin.get("/openapi.json").content) == openapi
