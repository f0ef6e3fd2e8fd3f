"""A backup over HTTP, sent as it is read."""

import asyncio
from pathlib import Path

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ringfence.kernel.backups import service
from ringfence.kernel.clock import iso
from ringfence.kernel.errors import Conflict, Forbidden, Unavailable
from ringfence.kernel.http.endpoint import Access, Api, Call, Fields
from ringfence.settings import Settings

ON_POSTGRESQL = "the state is in PostgreSQL: back that up with pg_dump, and copy the folder files/ of the data folder"


class Backup(StreamingResponse):
    """Sends the folder, and removes it, also when nobody wanted to read to the end."""

    def __init__(self, folder: Path, name: str) -> None:
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        super().__init__(service.chunks(folder), headers=headers, media_type="application/x-tar")
        self._folder = folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            asyncio.get_running_loop().run_in_executor(None, service.discard, self._folder)


def routes(settings: Settings) -> Api:
    api = Api("system")
    turn = asyncio.Lock()

    @api.route("POST", "/api/v1/backup", access=Access.CONFIGURE, media="application/x-tar")
    async def backup(call: Call[Fields, Fields]) -> Response:
        """A copy of everything, as it is at one moment: a tar that `ringfence backup restore` puts back.

        It holds what every project holds, and the hashes of all tokens. On PostgreSQL use pg_dump."""
        if call.principal.projects is not None:
            raise Forbidden("a backup is of all projects, and you see only some")
        if settings.database:
            raise Conflict(ON_POSTGRESQL, code="postgresql")
        if turn.locked():
            raise Unavailable("another backup is being made: repeat when it is done")
        async with turn:
            await call.write(lambda tx: tx.record("backup_made", call.principal.actor, {}))
            folder = await asyncio.to_thread(service.take, settings.data)
        moment = iso(call.server.database.clock.now())[:19].replace(":", "").replace("-", "")
        return Backup(folder, f"ringfence-{moment}.tar")

    return api
