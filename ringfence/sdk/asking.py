"""What every group of operations stands on: asking, and the few ways an answer is taken."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import httpx

from ringfence.sdk import identity
from ringfence.sdk.calls import Call, Json, Repeat, Upload, body, given
from ringfence.sdk.errors import Conflict, Forbidden, NotFound, RuleBroken
from ringfence.sdk.retrying import Patience, perform
from ringfence.sdk.steps import Steps
from ringfence.sdk.views import Page, Proposed, is_proposed

T = TypeVar("T")
PAGE = 500

log = logging.getLogger("ringfence.sdk")


class Asking:
    _identity: identity.Identity
    _patience: Patience
    _acting: str | None
    """The agent in whose name things are done; None: whoever holds the token."""

    def _whom(self, agent: str | None) -> str:
        name = agent or self._acting
        if name is None:
            raise TypeError("which agent? Name it: an operator is none")
        return name

    def _authorization(self) -> dict[str, str]:
        return identity.header(self._identity.token)

    def _ask(self, call: Call[T]) -> Steps[T]:
        return perform(call, self._authorization, self._patience)

    def _get(self, where: str, kind: type[T], /, **query: Any) -> Steps[T]:
        return self._ask(Call(method="GET", path=where, reads=Json(kind), query=query))

    def _change(
        self,
        method: str,
        where: str,
        kind: type[T],
        body: Mapping[str, Any] | None = None,
        repeat: Repeat = Repeat.SAFE,
    ) -> Steps[T]:
        """Say how things are to be: twice is as once."""
        return self._ask(Call(method=method, path=where, reads=Json(kind), body=body or {}, repeat=repeat))

    def _create(self, where: str, kind: type[T], /, **fields: Any) -> Steps[T]:
        """Make a thing, once."""
        return self._change("POST", where, kind, given(**fields), Repeat.KEYED)

    def _upload(self, where: str, kind: type[T], upload: Upload, **fields: Any) -> Steps[T]:
        """Put a file there: twice is as once."""
        return self._ask(Call(method="POST", path=where, reads=Json(kind), body=given(**fields), upload=upload))

    def _remove(self, where: str, kind: type[T]) -> Steps[T | Proposed | None]:
        """Remove a thing. Gone by an earlier try of the same is removed too."""
        try:
            return (yield from self._ask(Call(method="DELETE", path=where, reads=Json(kind))))
        except NotFound as error:
            if not error.repeated:
                raise
            return None

    def _agreed(self, steps: Steps[object]) -> Steps[bool]:
        """Whether it was done. A refusal is an answer here, and logged; what is wrong with the program is not."""
        try:
            result = yield from steps
        except (Forbidden, Conflict, RuleBroken, NotFound) as refusal:
            log.warning("refused: %s", refusal)
            return False
        if is_proposed(result):
            log.info("waits for approval: %s", result["message"])
            return False
        return True

    def _list(self, where: str, kind: type[T], limit: int | None = None, /, **query: Any) -> Steps[list[T]]:
        """The items of a list, page by page; all of them, or the first `limit`."""
        found: list[T] = []
        cursor: str | None = None
        while True:
            size = PAGE if limit is None else min(PAGE, limit - len(found))
            asked = {**query, "limit": size, "cursor": cursor}
            page: Page[T] = yield from self._ask(Call(method="GET", path=where, reads=Items(kind), query=asked))
            found += page["items"]
            cursor = page["next"]
            if cursor is None or (limit is not None and len(found) >= limit):
                return found


@dataclass(frozen=True, slots=True)
class Items(Generic[T]):
    """Reads a page of a list. At the root a list is an array, and the next page is in its `Link`."""

    kind: type[T]

    def __call__(self, response: httpx.Response) -> Page[T]:
        found = body(response)
        if isinstance(found, dict):
            return cast(Page[T], found)
        following = response.links.get("next", {}).get("url")
        return {"items": found, "next": httpx.URL(following).params.get("cursor") if following else None}
