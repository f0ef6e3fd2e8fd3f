"""Where the command line finds a server, and who it is there.

In this order: `--url` (with `--token`), `--data`, `--context`, then RINGFENCE_URL (with RINGFENCE_TOKEN), then the
current context, then the server that runs on the default data folder.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ringfence.cli.problems import NotFound, Problem, Unreachable, Usage
from ringfence.supervisor import Running, write_private

LOCAL = "local"  # the context of the default data folder


def default_data() -> Path:
    """As `ringfence.settings.default_data`, whose module takes a tenth of a second to import."""
    if os.geteuid() == 0:
        return Path("/var/lib/ringfence")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "ringfence"


def config_folder(env: Mapping[str, str] = os.environ) -> Path:
    if given := env.get("RINGFENCE_CONFIG_DIR"):
        return Path(given).expanduser().absolute()
    try:
        return Path(env.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "ringfence"
    except RuntimeError:
        raise Problem("this user has no home folder: set RINGFENCE_CONFIG_DIR to a folder of theirs") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A server one has to do with. With `data`, whoever runs on that folder is meant, whatever its port."""

    url: str | None = None
    token: str | None = None
    data: str | None = None
    ca: str | None = None  # a file of certificates to trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server, found."""

    url: str
    token: str | None
    ca: str | None = None  # a file of certificates to trust
    pinned: str | None = None  # or the one certificate that this machine's own server shows
    source: str = ""  # who named it, for messages


class Contexts:
    """The file `contexts.json` of the user's configuration folder; it holds tokens, so only they can read it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "contexts.json"
        self.current: str | None = None
        self.known: dict[str, Context] = {}
        try:
            found = json.loads(self.path.read_bytes())
            self.current = found["current"]
            self.known = {name: Context(**facts) for name, facts in found["contexts"].items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise Problem(f"{self.path} cannot be read ({error}): mend it, or remove it and sign in again") from None

    def save(self) -> None:
        facts = {"current": self.current, "contexts": {name: asdict(self.known[name]) for name in sorted(self.known)}}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self.path, json.dumps(facts, indent=1) + "\n")
        except OSError as error:
            raise Problem(f"{self.path} cannot be written: {error.strerror}") from None

    def get(self, name: str) -> Context:
        try:
            return self.known[name]
        except KeyError:
            there = ", ".join(sorted(self.known)) or "none yet"
            raise NotFound(f"there is no context {name!r}; there are: {there}") from None

    def of_data(self, data: Path) -> str | None:
        """The context of a data folder."""
        return next((name for name, known in self.known.items() if known.data == str(data)), None)

    def keep_local(self, data: Path, url: str, token: str) -> None:
        """Remember the token of a server on this machine, under the name of its data folder."""
        name = self.of_data(data)
        if name is None:
            wanted = LOCAL if data == default_data() else f"{LOCAL}:{data}"
            name = wanted
        self.known = {
            other: known
            for other, known in self.known.items()
            if not other.startswith(f"{LOCAL}:") or known.data is None or Path(known.data).exists()
        }
        self.known[name] = Context(url=url, token=token, data=str(data))
        self.save()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command was told about where to go."""

    url: str | None = None
    token: str | None = None
    data: Path | None = None
    context: str | None = None

    def place(self, env: Mapping[str, str] = os.environ) -> Place:
        token = self.token or (env.get("RINGFENCE_TOKEN") or None)
        ca = env.get("RINGFENCE_CA") or None
        if sum(given is not None for given in (self.url, self.data, self.context)) > 1:
            raise Usage("--url, --data and --context each name a server: give one of them")
        if self.url is not None:
            return _at(_checked(self.url, "--url"), token, ca, "--url", env)
        if self.data is not None:
            return self._with(on_data(self.data.expanduser().absolute()), token)
        if self.context is not None:
            return self._with(_of_context(Contexts(config_folder(env)).get(self.context), self.context, ca), self.token)
        if env.get("RINGFENCE_URL"):
            return _at(_checked(env["RINGFENCE_URL"], "RINGFENCE_URL"), token, ca, "RINGFENCE_URL", env)
        contexts = Contexts(config_folder(env))
        if contexts.current is not None:
            known = contexts.known.get(contexts.current)
            if known is not None:
                return self._with(_of_context(known, contexts.current, ca), token)
        data = Path(env.get("RINGFENCE_DATA") or default_data()).expanduser().absolute()
        return self._with(on_data(data), token)

    @staticmethod
    def _with(place: Place, token: str | None) -> Place:
        return replace(place, token=token or place.token)


def _at(url: str, token: str | None, ca: str | None, source: str, env: Mapping[str, str]) -> Place:
    """A server by its address; without a token, as whom we signed in there."""
    if token is None:
        for known in Contexts(config_folder(env)).known.values():
            if known.url == url and known.data is None:
                return Place(url=url, token=known.token, ca=ca or known.ca, source=source)
    return Place(url=url, token=token, ca=ca, source=source)


def on_data(data: Path) -> Place:
    """The server that runs on a data folder of this machine."""
    running = Running.on(data)
    if running is None:
        hint = "" if data == default_data() else f" --data {data}"
        raise Unreachable(
            f"no Ringfence runs on {data}: start one with `ringfence up{hint}`, "
            "or name another folder with --data, or a server with --url"
            f"{_if_unreadable(data)}"
        )
    return Place(url=running.url, token=running.token, pinned=running.certificate, source=str(data))


def _if_unreadable(data: Path) -> str:
    try:
        (data / "run/server.json").stat()
    except PermissionError:
        return f" (you may not look into {data}: `ringfence login URL` signs you in to a server of another user)"
    except OSError:
        pass
    return ""


def _of_context(known: Context, name: str, ca: str | None) -> Place:
    if known.data is not None:
        try:
            found = on_data(Path(known.data))
        except Unreachable:
            if known.url is None:
                raise
            raise Unreachable(
                f"no Ringfence runs on {known.data} (context {name!r}): start it with `ringfence up`,"
                " or choose another with `ringfence config use-context`"
            ) from None
        return replace(found, token=found.token or known.token, source=f"context {name!r}")
    if known.url is None:
        raise Problem(f"context {name!r} names no server: set it with `ringfence config set-context {name} --url URL`")
    return Place(url=known.url, token=known.token, ca=ca or known.ca, source=f"context {name!r}")


def _checked(url: str, given_in: str) -> str:
    url = url.rstrip("/")
    scheme, separator, host = url.partition("://")
    if separator and scheme in ("http", "https") and host and not any(c.isspace() or c in "@?#" for c in host):
        return url
    raise Usage(f"{given_in} {url!r} is not an http:// or https:// address")
