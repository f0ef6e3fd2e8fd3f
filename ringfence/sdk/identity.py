"""Who a client is: the tokens it was given, got and kept.

    given        `token=` or RINGFENCE_TOKEN: the agent's own, or an operator's, with which it registers itself
    enrolment    `enrolment=` or RINGFENCE_ENROLMENT: good for registering, and nothing else
    own          what registration answered with; kept in a file when it came by an enrolment token, so that the
                 process that comes after this one is the same agent

Without any of them nothing is sent: inside a sandbox the server knows by the connection who asks.
"""

import contextlib
import hashlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ringfence.sdk.errors import NotRegistered

log = logging.getLogger("ringfence.sdk")

OWN, ENROLMENT = "rfag_", "rfen_"  # what an agent's and an enrolment token begin with


class Kept:
    """The file that holds one agent's token for one server, readable by its owner only."""

    def __init__(self, folder: Path, url: str, agent: str) -> None:
        mark = hashlib.sha256(f"{url}\n{agent}".encode()).hexdigest()[:12]
        self.path = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', agent)[:64]}-{mark}.json"
        self._of = {"url": url, "agent": agent}

    def token(self) -> str | None:
        try:
            held = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return None
        known = isinstance(held, dict) and all(held.get(name) == value for name, value in self._of.items())
        return str(held["token"]) if known and held.get("token") else None

    def keep(self, token: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".new-")  # 0600 from its first byte
        try:
            with os.fdopen(handle, "w") as file:
                json.dump({**self._of, "token": token}, file)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)


class Identity:
    """The token of an agent's client, as it changes."""

    def __init__(self, given: str | None, enrolment: str | None = None, kept: Kept | None = None) -> None:
        if given is not None and given.startswith(ENROLMENT):
            given, enrolment = None, given
        self._given = given
        self._enrolment = enrolment
        self._kept = kept
        self._own = given if given is not None and given.startswith(OWN) else None
        if given is None and kept is not None:
            self._own = kept.token()

    @property
    def is_agent(self) -> bool:
        """Whether the server sees the agent itself in what is sent, and not an operator, or nobody yet."""
        return self._own is not None or (self._given is None and self._enrolment is None)

    @property
    def token(self) -> str | None:
        token = self._own or self._given
        if token is None and self._enrolment is not None:
            raise NotRegistered("an enrolment token is good for registering only: call register() first")
        return token

    @property
    def for_registering(self) -> list[str | None]:
        """The tokens to register with, in order; [None] where none is needed."""
        tokens = [token for token in (self._own, self._given, self._enrolment) if token is not None]
        return list(dict.fromkeys(tokens)) or [None]

    def registered(self, by: str | None, token: str | None) -> None:
        """What registering with `by` was answered with; no token: with its own, or in a sandbox."""
        if token is None:
            return
        self._own = token
        if by is not None and by == self._enrolment and self._kept is not None:
            try:
                self._kept.keep(token)
            except OSError as error:
                log.warning("the agent's token cannot be kept for the next process: %s", error)

    def learn(self) -> bool:
        """Whether another process has registered this agent in the meantime, and kept its token."""
        token = self._kept.token() if self._given is None and self._kept is not None else None
        if token is None or token == self._own:
            return False
        self._own = token
        return True

    def unregistered(self) -> None:
        """The agent is gone, and its token with it."""
        self._own = None
        if self._given is None and self._kept is not None:
            self._kept.forget()


def header(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


def state_folder(env: Mapping[str, str]) -> Path | None:
    """Where tokens are kept; None where the user has no home, as in some sandboxes."""
    try:
        if named := env.get("RINGFENCE_CONFIG_DIR"):
            return Path(named).expanduser() / "agents"
        return Path(env.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "ringfence" / "agents"
    except RuntimeError:
        return None
