"""Execs over HTTP: an answer at the end, or a stream of server-sent events; and what became of earlier ones."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response, StreamingResponse

from ringfence.fence.link.model import Channel, Whom
from ringfence.kernel.http.endpoint import Access, Answer, Api, Call, Fields, Page
from ringfence.kernel.http.openapi import Listed
from ringfence.kernel.http.stream import EventStream
from ringfence.sessions import views
from ringfence.sessions.model import ANSWERED, Command, Exec, signal_number
from ringfence.sessions.service import READ, Execs, Running
from ringfence.settings import Settings

EXEC = "/api/v1/sandboxes/{sandbox}/exec"
EXECS = "/api/v1/sandboxes/{sandbox}/execs"
ONE = f"{EXECS}/{{exec_id}}"
CHANNELS = {"stdout": Channel.OUT, "stderr": Channel.ERR}
PIECE = 256 << 10  # characters
NAMES = {Channel.OUT: "stdout", Channel.ERR: "stderr"}
WHOM = {"first": Whom.FIRST, "all": Whom.ALL, "foreground": Whom.FOREGROUND}


def routes(execs: Execs, settings: Settings) -> Api:
    api = Api("execs")

    async def started(call: Call[views.NewExec, Fields], command: Command) -> Running | Exec:
        return await execs.start(call.principal, call["sandbox"], command, call.once())

    async def answer(found: Running | Exec) -> views.ExecAnswer:
        ended = await found.end() if isinstance(found, Running) else found
        out = await execs.output(found, Channel.OUT, 0, ANSWERED)
        err = await execs.output(found, Channel.ERR, 0, ANSWERED)
        return views.exec_answer(ended, out, err)

    def stream(found: Running | Exec, *, detached: bool) -> EventStream:
        return EventStream(_told(execs, found, detached=detached))

    @api.route(
        "POST", EXEC, access=Access.ACT, body=views.NewExec, answers=views.ExecAnswer, creates=True, hot=True,
        also={202: views.ExecView},
    )  # fmt: skip
    async def run(call: Call[views.NewExec, Fields]) -> Any:
        """Run a program, and answer when it has ended.

        With `detach` the answer (202) comes as soon as it runs; with `Accept: text/event-stream` it is a stream, as
        that of `exec/stream`. Output is text, and base64 too where it is not UTF-8; `truncated`: there was more."""
        streams = "text/event-stream" in call.request.headers.get("accept", "")
        command = call.body.wish(waits=not streams and not call.body.detach)
        found = await started(call, command)
        if streams:
            return stream(found, detached=command.detached)
        if command.detached:
            return Answer(views.exec_view(found.now() if isinstance(found, Running) else found), 202)
        return await _in_pieces(await answer(found))

    @api.route(
        "POST", f"{EXEC}/stream", access=Access.ACT, body=views.NewExec, creates=True, media="text/event-stream",
        answers=str,
    )  # fmt: skip
    async def run_streaming(call: Call[views.NewExec, Fields]) -> EventStream:
        """Run a program, and stream what it says: events `started`, `stdout`, `stderr`, `ended`.

        Output carries its `offset` and is `text`, or `base64` where it is not UTF-8. A reader who goes away ends
        the program, unless `detach`."""
        command = call.body.wish(waits=False)
        return stream(await started(call, command), detached=command.detached)

    @api.route("GET", EXECS, access=Access.READ, query=views.ExecsQuery, answers=Listed(views.ExecView))
    async def list_execs(call: Call[Fields, views.ExecsQuery]) -> Page:
        """What was run in a sandbox, newest first."""
        query = call.query
        found, following = await execs.page(
            call.principal, call["sandbox"], query.cursor, query.limit or settings.page_size, running=query.running
        )
        return Page([views.exec_view(one) for one in found], following)

    @api.route("GET", ONE, access=Access.READ, answers=views.ExecView)
    async def show(call: Call[Fields, Fields]) -> views.ExecView:
        """One exec: how it ended, or that it runs."""
        found = await execs.find(call.principal, call["sandbox"], call["exec_id"])
        return views.exec_view(found.now() if isinstance(found, Running) else found)

    @api.route("GET", f"{ONE}/output", access=Access.READ, query=views.OutputQuery, media="application/octet-stream",
               answers=bytes)  # fmt: skip
    async def output(call: Call[Fields, views.OutputQuery]) -> StreamingResponse:
        """What it said on one channel, byte for byte, from `offset` on; with `follow` until it ends."""
        query, by = call.query, call.principal
        found = await execs.find(by, call["sandbox"], call["exec_id"])
        now = found.now() if isinstance(found, Running) else found
        channel = CHANNELS[query.channel]
        size, kept = (now.out_size, now.out_kept) if channel is Channel.OUT else (now.err_size, now.err_kept)
        headers = {"x-ringfence-bytes": str(size), "x-ringfence-kept": str(kept)}
        link = None
        if query.follow and isinstance(found, Running) and now.exit is None:
            link = await execs.link(by, call["sandbox"])
        pieces = _raw(execs, found, channel, query.offset, link)
        return StreamingResponse(pieces, headers=headers, media_type="application/octet-stream")

    @api.route("GET", f"{ONE}/stream", access=Access.ACT, media="text/event-stream", answers=str)
    async def follow(call: Call[Fields, Fields]) -> EventStream:
        """What it said so far, and then as it says it; going away does not end it."""
        found = await execs.find(call.principal, call["sandbox"], call["exec_id"])
        if isinstance(found, Running) and found.session is None and found.exec.exit is None:
            found, _ = await execs.session(call.principal, call["sandbox"], call["exec_id"])
        return stream(found, detached=True)

    @api.route("POST", f"{ONE}/input", access=Access.ACT, body=views.InputBody, answers=views.InputTaken)
    async def send_input(call: Call[views.InputBody, Fields]) -> views.InputTaken:
        """Send it input; answered when the program may read it. A repeat with the same `offset` is typed once."""
        _, session = await execs.session(call.principal, call["sandbox"], call["exec_id"])
        body = call.body
        return {"offset": await execs.send(session, body.data(), body.offset, end=body.end)}

    @api.route("POST", f"{ONE}/signal", access=Access.ACT, body=views.SignalBody, answers=views.ExecView)
    async def send_signal(call: Call[views.SignalBody, Fields]) -> views.ExecView:
        """Send it a signal; KILL to all ends everything it started."""
        number = signal_number(call.body.signal)
        running, session = await execs.session(call.principal, call["sandbox"], call["exec_id"])
        session.signal(number, WHOM[call.body.whom])
        return views.exec_view(running.now())

    @api.route("POST", f"{ONE}/resize", access=Access.ACT, body=views.Size, answers=views.ExecView)
    async def resize(call: Call[views.Size, Fields]) -> views.ExecView:
        """Its terminal has another size."""
        running, session = await execs.session(call.principal, call["sandbox"], call["exec_id"])
        session.resize(call.body.rows, call.body.columns)
        return views.exec_view(running.now())

    return api


async def _told(execs: Execs, found: Running | Exec, *, detached: bool) -> AsyncGenerator[bytes, None]:
    pieces = views.Pieces()
    ended = False
    try:
        now = found.now() if isinstance(found, Running) else found
        yield _event("started", views.exec_view(now))
        offsets = dict.fromkeys(Channel, 0)
        async for channel, offset, data in execs.follow(found):
            yield _event(NAMES[channel], pieces.piece(channel, offset, data))
            offsets[channel] = offset + len(data)
        for channel, offset in offsets.items():
            if (rest := pieces.rest(channel, offset)) is not None:
                yield _event(NAMES[channel], rest)
        end = await found.end() if isinstance(found, Running) else found
        ended = True
        yield _event("ended", views.exec_view(end))
    finally:
        if not ended and not detached and isinstance(found, Running):
            execs.kill(found)


async def _in_pieces(answer: views.ExecAnswer) -> Any:
    """Long texts are written as JSON a piece at a time: a character may become six, and others wait for the loop."""
    if len(answer["stdout"]) + len(answer["stderr"]) < PIECE:
        return answer
    pieces = [to_json({name: value for name, value in answer.items() if name not in CHANNELS})[:-1]]
    for name in CHANNELS:
        text: str = answer[name]  # type: ignore[literal-required]
        pieces.append(b',"%s":"' % name.encode())
        for at in range(0, len(text), PIECE):
            pieces.append(to_json(text[at : at + PIECE])[1:-1])
            await asyncio.sleep(0)
        pieces.append(b'"')
    return Response(b"".join([*pieces, b"}"]), media_type="application/json")


def _event(kind: str, fields: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), to_json(fields))


async def _raw(
    execs: Execs, found: Running | Exec, channel: Channel, offset: int, link: Any
) -> AsyncGenerator[bytes, None]:
    if link is None:
        while piece := await execs.output(found, channel, offset, READ):
            yield piece
            offset += len(piece)
        return
    async for which, at, piece in execs.follow(found, link):
        if which is channel and at + len(piece) > offset:
            yield piece[max(0, offset - at) :]
