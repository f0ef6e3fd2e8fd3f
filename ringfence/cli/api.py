"""The command line's client of the HTTP interface: one request, one answer, and its problems as ours."""

import contextlib
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from ringfence.cli.places import Place
from ringfence.cli.problems import NotAllowed, Problem, Unreachable, of_status

if TYPE_CHECKING:
    import httpx

CONNECT_WITHIN = 10.0
ANSWER_WITHIN = 60.0
UNPACKED_WITHIN = 3600.0  # until an image that was sent is unpacked
PAGE = 500

Json = dict[str, Any]


def path(*parts: str) -> str:
    """A path of names that may hold anything; a file's name keeps its slashes by `file_path`."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def file_path(name: str) -> str:
    return "/".join(quote(part, safe="") for part in name.split("/"))


class Answer:
    def __init__(self, response: "httpx.Response") -> None:
        self.status = response.status_code
        self._response = response

    @property
    def body(self) -> Any:
        if not self._response.content:
            return None
        try:
            return self._response.json()
        except ValueError:
            raise Problem(f"{self._response.url} did not answer with JSON: is this a Ringfence?") from None

    @property
    def bytes(self) -> bytes:
        return self._response.content

    @property
    def proposal(self) -> Json | None:
        """What waits for a person's approval instead of being done."""
        return self.body.get("proposal") if self.status == 202 and isinstance(self.body, dict) else None


class Api:
    def __init__(self, place: Place) -> None:
        import httpx

        self.place = place
        self._httpx = httpx
        headers = {"accept": "application/json", "user-agent": "ringfence-cli"}
        if place.token:
            if not place.token.isascii() or not place.token.isprintable():
                raise NotAllowed("the token holds characters that no token has: copy it again")
            headers["authorization"] = f"Bearer {place.token}"
        self._client = httpx.Client(
            base_url=place.url,
            headers=headers,
            timeout=httpx.Timeout(ANSWER_WITHIN, connect=CONNECT_WITHIN),
            verify=trust(place),
            trust_env=not place.url.startswith(("http://127.", "http://localhost", "http://[::1]", "https://127.")),
        )

    def close(self) -> None:
        self._client.close()

    def get(self, url: str, **query: object) -> Any:
        return self.ask("GET", url, query=query).body

    def post(self, url: str, body: Mapping[str, object] | None = None, **query: object) -> Answer:
        return self.ask("POST", url, body=body or {}, query=query)

    def patch(self, url: str, body: Mapping[str, object]) -> Answer:
        return self.ask("PATCH", url, body=body)

    def put(self, url: str, body: Mapping[str, object]) -> Answer:
        return self.ask("PUT", url, body=body)

    def delete(self, url: str, **query: object) -> Answer:
        return self.ask("DELETE", url, query=query)

    def every(
        self, url: str, *, limit: int | None = None, cursor: str | None = None, paged: bool = True, **query: object
    ) -> list[Json]:
        """The items of a list, page by page, up to `limit`. Some lists are never long, and have one page."""
        if not paged:
            items: list[Json] = self.get(url, **query)["items"]
            return items[:limit]
        found: list[Json] = []
        while True:
            size = PAGE if limit is None else min(PAGE, limit - len(found))
            page = self.get(url, limit=size, cursor=cursor, **query)
            found += page["items"]
            cursor = page.get("next")
            if cursor is None or (limit is not None and len(found) >= limit):
                return found

    def upload(self, url: str, name: str, content: IO[bytes], fields: Mapping[str, str]) -> Answer:
        return self.ask("POST", url, files={"file": (name, content, "application/octet-stream")}, fields=fields)

    def ask(
        self,
        method: str,
        url: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        files: Any = None,
        fields: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (),
    ) -> Answer:
        """The answer; a status of 400 and above that is not in `accept` is a Problem."""
        with self._reaching():
            response = self._client.request(
                method, url, params=_given(query), json=_without_none(body), files=files, data=fields
            )  # fmt: skip
        if response.status_code >= 400 and response.status_code not in accept:
            raise self._problem(response)
        if 300 <= response.status_code < 400:
            raise Unreachable(
                f"{self.place.url} leads elsewhere ({response.headers.get('location')}): use that address"
            )
        return Answer(response)

    @contextlib.contextmanager
    def stream(self, url: str, headers: Mapping[str, str], **query: object) -> Iterator[Iterator[str]]:
        """The lines of an answer that goes on."""
        timeout = self._httpx.Timeout(CONNECT_WITHIN, read=45.0)  # it says at least "keepalive" every 15 s
        accept = {"accept": "text/event-stream", **headers}
        with (
            self._reaching(),
            self._client.stream("GET", url, params=_given(query), headers=accept, timeout=timeout) as response,
        ):
            if response.status_code >= 400:
                response.read()
                raise self._problem(response)
            yield response.iter_lines()

    def send(self, url: str, chunks: Iterator[bytes] | None, size: int | None = None, **query: object) -> Any:
        """A body of bytes that may be long, as it comes; its answer may take long too."""
        timeout = self._httpx.Timeout(ANSWER_WITHIN, connect=CONNECT_WITHIN, read=UNPACKED_WITHIN)
        headers = {} if size is None else {"content-length": str(size), "content-type": "application/octet-stream"}
        with self._reaching():
            response = self._client.post(url, params=_given(query), content=chunks, headers=headers, timeout=timeout)
        if response.status_code >= 400:
            raise self._problem(response)
        return Answer(response).body

    @contextlib.contextmanager
    def download(self, method: str, url: str) -> Iterator[Iterator[bytes]]:
        """An answer that may be long, piece by piece."""
        timeout = self._httpx.Timeout(CONNECT_WITHIN, read=None)  # a large database takes its time
        with self._reaching(), self._client.stream(method, url, timeout=timeout) as answer:
            if answer.status_code >= 400:
                answer.read()
                raise self._problem(answer)
            yield answer.iter_raw()

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except self._httpx.TimeoutException:
            raise Unreachable(f"{self.place.url} did not answer in time") from None
        except self._httpx.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise Unreachable(
                    f"{self.place.url} shows a certificate that is not trusted here: name its file of certificates in"
                    " RINGFENCE_CA"
                ) from None
            raise Unreachable(
                f"no server answers at {self.place.url} ({self.place.source}): is it running, and is the address right?"
            ) from None
        except self._httpx.HTTPError as error:
            raise Unreachable(f"the connection to {self.place.url} broke: {error or type(error).__name__}") from None

    def _problem(self, response: "httpx.Response") -> Problem:
        try:
            facts = response.json()
            sentence = str(facts.get("detail") or facts["error"])
        except (ValueError, KeyError, AttributeError):
            facts, sentence = {}, f"{response.request.method} {response.url.path} answered {response.status_code}"
        if response.status_code == 401 and not self.place.token:
            sentence = (
                f"you are not signed in at {self.place.url}: `ringfence login {self.place.url}`, or set RINGFENCE_TOKEN"
            )
        if response.status_code == 429 and (after := response.headers.get("retry-after")):
            sentence += f" (again in {after} s)" if after not in sentence else ""
        return of_status(response.status_code)(sentence, facts)


def _given(query: Mapping[str, object] | None) -> dict[str, Any]:
    """The parameters that were given, as the server reads them."""
    found: dict[str, Any] = {}
    for name, value in (query or {}).items():
        if value is None or value == []:
            continue
        found[name] = str(value).lower() if isinstance(value, bool) else value
    return found


def _without_none(body: Mapping[str, object] | None) -> Json | None:
    """What was not given is not sent; `NULL` is sent as null."""
    if body is None:
        return None
    return {name: None if value is NULL else value for name, value in body.items() if value is not None}


NULL = object()


def trust(place: Place) -> ssl.SSLContext | bool:
    if not place.url.startswith("https://"):
        return False
    try:
        if place.pinned is not None:
            context = ssl.create_default_context(cadata=Path(place.pinned).read_text())
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.check_hostname = False
            return context
        return ssl.create_default_context(cafile=place.ca)
    except (OSError, ValueError) as error:
        raise Problem(f"the certificates in {place.pinned or place.ca} cannot be read: {error}") from None
