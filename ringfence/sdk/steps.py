"""A client's method, written once for both twins.

A method is a generator of steps: it says what has to happen (`Send` a call, `Wait`, `Tell` the user's function, do
`Work` that takes its time on this machine) and is given what came of it. Two drivers carry steps out, `Blocking` and
`Awaiting`, and know nothing else.

    @operation
    def list_projects(self, agent: str | None = None) -> Steps[list[ProjectSummary]]: ...

    AgentClient.list_projects        (agent=None) -> list[ProjectSummary]
    AsyncAgentClient.list_projects   (agent=None) -> Coroutine of the same
    Operations.list_projects.steps   the generator itself, for an operation that is made of others
"""

import asyncio
import functools
import inspect
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import httpx

from ringfence.sdk.calls import Call, Sink

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Send:
    """Gives the `httpx.Response`, read; raises `httpx.TransportError`."""

    call: Call[Any]
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Wait:
    """Gives whether the caller wants to stop; then at once."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Tell:
    """Gives what the user's function returned; raises what it raised."""

    listener: Callable[[Any], object]
    what: object


@dataclass(frozen=True, slots=True)
class Work:
    """Gives what the function returned, which may take its time: packing a tree, say."""

    function: Callable[[], object]


Step = Send | Wait | Tell | Work
Steps = Generator[Step, Any, T]


class Blocking:
    """Carries steps out on the thread that asked."""

    _http: httpx.Client

    def _drive(self, steps: Steps[T], stop: threading.Event | None = None) -> T:
        given: Any = None
        raised: Exception | None = None
        try:
            while True:
                step = steps.send(given) if raised is None else steps.throw(raised)
                given, raised = None, None
                try:
                    given = self._carry_out(step, stop)
                except Exception as error:
                    raised = error
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()

    def _carry_out(self, step: Step, stop: threading.Event | None) -> object:
        match step:
            case Send(call, headers) if call.sink is not None:
                return self._receive(call.request(self._http, headers), call.sink)
            case Send(call, headers):
                return self._http.send(call.request(self._http, headers))
            case Work(function):
                return function()
            case Tell(listener, what):
                return listener(what)
            case Wait(seconds) if stop is not None:
                return stop.wait(seconds)
            case Wait(seconds):
                time.sleep(seconds)
                return False

    def _receive(self, request: httpx.Request, sink: Sink) -> httpx.Response:
        response = self._http.send(request, stream=True)
        try:
            if not response.is_success:
                response.read()
                return response
            sink.begin()
            for piece in response.iter_bytes():
                sink.take(piece)
            return response
        finally:
            response.close()


class Awaiting:
    """Carries steps out on the event loop."""

    _http: httpx.AsyncClient

    async def _drive(self, steps: Steps[T], stop: asyncio.Event | None = None) -> T:
        given: Any = None
        raised: Exception | None = None
        try:
            while True:
                step = steps.send(given) if raised is None else steps.throw(raised)
                given, raised = None, None
                try:
                    given = await self._carry_out(step, stop)
                except Exception as error:
                    raised = error
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            steps.close()

    async def _carry_out(self, step: Step, stop: asyncio.Event | None) -> object:
        match step:
            case Send(call, headers) if call.sink is not None:
                return await self._receive(call.request(self._http, headers), call.sink)
            case Send(call, headers):
                return await self._http.send(call.request(self._http, headers))
            case Work(function):
                return await asyncio.to_thread(function)
            case Tell(listener, what):
                result = listener(what)
                return await result if inspect.isawaitable(result) else result
            case Wait(seconds) if stop is not None:
                try:
                    return await asyncio.wait_for(stop.wait(), seconds)
                except TimeoutError:
                    return stop.is_set()
            case Wait(seconds):
                await asyncio.sleep(seconds)
                return False

    async def _receive(self, request: httpx.Request, sink: Sink) -> httpx.Response:
        response = await self._http.send(request, stream=True)
        try:
            if not response.is_success:
                await response.aread()
                return response
            sink.begin()
            async for piece in response.aiter_bytes():
                sink.take(piece)
            return response
        finally:
            await response.aclose()


class operation(Generic[P, T]):
    """A method whose body is steps: plain on a `Blocking` client, awaitable on an `Awaiting` one."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        functools.update_wrapper(self, steps)
        self.steps = steps
        self.__signature__ = inspect.signature(steps)
        self._bound = self.__signature__.replace(parameters=list(self.__signature__.parameters.values())[1:])

    @overload
    def __get__(self, client: Blocking, owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaiting, owner: object = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: None, owner: object = None) -> "operation[P, T]": ...
    def __get__(self, client: Blocking | Awaiting | None, owner: object = None) -> object:
        if client is None:
            return self
        method: Any = self._awaitable(client) if isinstance(client, Awaiting) else self._plain(client)
        functools.update_wrapper(method, self.steps)
        method.__signature__ = self._bound
        return method

    def __call__(self, client: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        """`AgentClient.register(client)`, as with any method."""
        return self.__get__(client)(*args, **kwargs)

    def _plain(self, client: Blocking) -> Callable[P, T]:
        def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return client._drive(self.steps(client, *args, **kwargs))

        return method

    def _awaitable(self, client: Awaiting) -> Callable[P, Coroutine[Any, Any, T]]:
        async def method(*args: P.args, **kwargs: P.kwargs) -> T:
            return await client._drive(self.steps(client, *args, **kwargs))

        return method
