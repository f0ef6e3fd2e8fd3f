"""Paths and bodies: no name can lead elsewhere, and what is not given is not sent."""

from urllib.parse import unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringfence.sdk.calls import Call, Json, Upload, file_path, path
from ringfence.sdk.calls import given as given_fields

CLIENT = httpx.Client(base_url="http://hub:8080")
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_any_names_arrive_as_they_were_and_where_they_belong(names: list[str]) -> None:
    sent = Call(method="GET", path=path("a", *names), reads=Json(dict)).request(CLIENT, {})
    raw = sent.url.raw_path.decode()
    assert [unquote(part) for part in raw.split("/")[1:]] == ["a", *names]


@given(NAMES)
def test_a_files_name_keeps_its_slashes_and_nothing_more(name: str) -> None:
    try:
        where = file_path("files", name=name)
    except ValueError:
        assert "" in name.split("/")
        return
    sent = Call(method="GET", path=where, reads=Json(dict)).request(CLIENT, {})
    raw = sent.url.raw_path.decode()
    assert "/../" not in raw + "/"
    assert [unquote(part) for part in raw.split("/")[2:]] == name.split("/")


@pytest.mark.parametrize("wrong", ["", None, 3, ["x"]])
def test_what_is_no_name_is_refused_before_anything_is_sent(wrong: object) -> None:
    with pytest.raises(ValueError, match="a name or an id is wanted here"):
        path("projects", wrong)  # type: ignore[arg-type]


def test_what_was_not_given_is_not_sent() -> None:
    assert given_fields(a=1, b=None, c="", d=False, e=[]) == {"a": 1, "c": "", "d": False, "e": []}


@pytest.mark.parametrize("kind", [httpx.Client, httpx.AsyncClient])
def test_an_upload_is_a_form_with_the_file_and_the_fields(kind: type[httpx.Client]) -> None:
    call = Call(
        method="POST", path="/f", reads=Json(dict), body={"uploader": "claude"}, upload=Upload("a/b", b"\0\xff")
    )
    request = call.request(kind(base_url="http://hub"), {"x": "y"})
    assert request.headers["content-type"].startswith("multipart/form-data")
    assert request.headers["x"] == "y"


def test_a_call_says_what_it_asks() -> None:
    assert Call(method="GET", path="/x", reads=Json(dict)).asked == "GET /x"
