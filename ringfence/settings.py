"""One Settings object: flags over environment over file over defaults; validated once, then passed in.

Every field can be given in `ringfence.toml` (in the data directory, or named by `--config`), as an environment
variable (`RINGFENCE_PORT`), or, for the common ones, as a flag of `ringfence up`. A key that does not exist is an error
that names it.
"""

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ringfence.kernel.sizes import in_bytes

Size = Annotated[int, BeforeValidator(in_bytes), Field(ge=0)]
PREFIX = "RINGFENCE_"
# Read by clients or by tests, not by the server; so not a typing error in a setting's name.
FOREIGN_VARIABLES = {"URL", "TOKEN", "ENROLMENT", "CONFIG", "AGENT", "CONFIG_DIR", "TEST_POSTGRES", "CA"}


class SettingsError(Exception):
    """A setting is wrong: the message names the key, the value and where it came from."""


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    data: Path = Field(description="The folder that holds all state.")
    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    database: str = Field("", description="A postgresql:// URL; empty: SQLite in the data folder.")
    public_url: str = Field("", description="Where people reach this Ringfence, when behind a reverse proxy.")
    allowed_hosts: tuple[str, ...] = Field((), description="Further host names to answer to; IP addresses always are.")
    trusted_proxies: tuple[str, ...] = Field((), description="Proxies whose X-Forwarded-* headers are believed.")
    tls_cert: Path | None = Field(None, description="Certificate chain (PEM): serve HTTPS.")
    tls_key: Path | None = Field(None, description="Key of the certificate (PEM).")

    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="How much is logged.")
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a terminal, else JSON."
    )

    max_body: int = Field(1 << 20, ge=1024, le=1 << 30, description="Largest JSON body, in bytes.")
    max_file: int = Field(10 << 20, ge=1, description="Largest uploaded file, in bytes (inclusive).")
    max_transfer: Size = Field(
        16 << 30, description="Largest file or archive written into a sandbox at once; 0: any size."
    )
    page_size: int = Field(100, ge=1, le=1000, description="Items on a page when the caller does not say.")

    stale_after: float = Field(30, gt=0, description="Seconds of silence after which an agent is stale.")
    heartbeat_timeout: float = Field(90, gt=0, description="Seconds of silence after which it is offline.")
    checkpoint_every: int = Field(6, ge=1, description="Heartbeats between two expected checkpoints.")
    checkpoint_missed: int = Field(3, ge=1, description="Missed checkpoints that mark an agent stalled.")
    sweep_every: float = Field(2, gt=0, description="Seconds between two looks at who went silent.")

    wip_in_progress: int = Field(3, ge=0, description="A new project's limit of tasks in progress, per agent.")
    wip_in_review: int = Field(5, ge=0, description="A new project's limit of tasks in review, per agent.")

    message_rate: int = Field(60, ge=0, description="Messages an agent may send in a minute; 0: no limit.")
    message_ttl_days: float = Field(7, gt=0, le=36500, description="Days after which an unread message expires.")
    link_hosts: tuple[str, ...] = Field((), description="Hosts that links in messages may name, `*.x` for subdomains.")
    link_filter_files: bool = Field(False, description="Refuse text files uploaded by agents that hold external links.")

    token_days: float = Field(90, gt=0, le=36500, description="Days a new token lives when the caller does not say.")
    signin_minutes: float = Field(30, gt=0, le=10080, description="Minutes a one-time sign-in link lives.")
    session_days: float = Field(30, gt=0, le=36500, description="Days a browser stays signed in.")

    runtime: Literal["native", "none"] = Field("native", description="What isolates sandboxes; none: there are none.")
    uid_base: int = Field(
        1_900_000_000,
        ge=65_536,
        le=4_000_000_000,
        description="Run by root: the first host id of the sandboxes' ranges.",
    )
    sandbox_image: str = Field("host", description="A sandbox's image when its maker does not say.")
    max_image: Size = Field(16 << 30, description="Largest image, as it is sent and unpacked, in bytes.")
    sandbox_memory: Size = Field(2 << 30, description="A sandbox's memory when its maker does not say; 0: no limit.")
    sandbox_cpus: float = Field(2, ge=0, description="Its processors; 0: no limit.")
    sandbox_pids: int = Field(512, ge=0, description="Its processes and threads; 0: no limit.")
    sandbox_disk: Size = Field(0, description="What it may write, in bytes; 0: no limit.")
    sandbox_idle: float = Field(0, ge=0, description="Seconds with nothing running until a sandbox stops; 0: never.")
    sandbox_grace: float = Field(10, ge=0, le=600, description="Seconds programs have to end when a sandbox stops.")
    quota_sandboxes: int = Field(1000, ge=0, description="Sandboxes each person or script may have; 0: any number.")
    quota_memory: Size = Field(0, description="Memory their sandboxes may be given together; 0: any amount.")
    keep_sandboxes_days: float = Field(7, ge=0, le=36500, description="Days a destroyed sandbox is still shown.")

    keep_events_days: float = Field(0, ge=0, le=36500, description="Days events are kept; 0: for ever.")
    keep_messages_days: float = Field(
        90, ge=0, le=36500, description="Days acknowledged messages are kept; 0: for ever."
    )
    keep_execs_days: float = Field(
        7, gt=0, le=36500, description="Days that what was run in sandboxes, and what it said, is kept."
    )
    drain_seconds: float = Field(10, gt=0, le=3600, description="Seconds requests get to finish at a stop.")

    @model_validator(mode="after")
    def _consistent(self) -> "Settings":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together: give both or neither")
        for name, path in (("tls_cert", self.tls_cert), ("tls_key", self.tls_key)):
            if path is not None and not os.access(path, os.R_OK):
                raise ValueError(f"{name}: there is no file {path} that can be read")
        if self.heartbeat_timeout < self.stale_after:
            raise ValueError("heartbeat_timeout must not be shorter than stale_after")
        if self.database and not self.database.startswith(("postgresql://", "postgres://")):
            raise ValueError("database must be a postgresql:// URL, or empty for SQLite")
        return self

    @property
    def scheme(self) -> str:
        return "https" if self.tls_cert else "http"

    @classmethod
    def load(cls, *, config: Path | None = None, env: dict[str, str] | None = None, **flags: object) -> "Settings":
        """Settings from everywhere; `flags` that are None were not given."""
        env = dict(os.environ) if env is None else env
        from_flags = {name: value for name, value in flags.items() if value is not None}
        from_env = _from_environment(env)
        data = from_flags.get("data") or from_env.get("data") or default_data()
        named = config or env.get(f"{PREFIX}CONFIG")
        path = Path(str(named or Path(str(data)).expanduser() / "ringfence.toml"))
        from_file = _from_file(path, required=bool(named))
        merged = {"data": data, **from_file, **from_env, **from_flags}
        merged["data"] = Path(str(merged["data"])).expanduser().absolute()
        try:
            return cls.model_validate(merged)
        except ValidationError as error:
            sources = dict.fromkeys(from_file, f"the file {path}")
            sources |= {key: f"{PREFIX}{key.upper()}" for key in from_env}
            sources |= {key: f"the flag --{key.replace('_', '-')}" for key in from_flags}
            raise SettingsError(_explain(error, sources)) from None


def default_data() -> Path:
    """Root's state belongs to the machine, anybody else's to them."""
    if os.geteuid() == 0:
        return Path("/var/lib/ringfence")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "ringfence"


def _from_file(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        # Root follows the settings of nobody else: in its data folder another user, the server, may add files.
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if required else os.O_NOFOLLOW | os.O_NONBLOCK))
        with os.fdopen(opened, encoding="utf-8") as file:
            if not required and os.geteuid() == 0 and os.fstat(opened).st_uid != 0:
                raise SettingsError(
                    f"the configuration file {path} belongs to another user: look at what it says, "
                    f"then `chown root {path}`"
                )
            return tomllib.loads(file.read())
    except FileNotFoundError:
        if required:
            raise SettingsError(f"there is no configuration file {path}") from None
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"the configuration file {path} cannot be read: {error}") from None


def _from_environment(env: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, value in env.items():
        name = variable.removeprefix(PREFIX)
        if name == variable or name in FOREIGN_VARIABLES:
            continue
        if name.lower() not in Settings.model_fields:
            raise SettingsError(f"the environment variable {variable} names no setting; see `ringfence config list`")
        several = "tuple" in str(Settings.model_fields[name.lower()].annotation)
        found[name.lower()] = [part.strip() for part in value.split(",") if part.strip()] if several else value
    return found


def _explain(error: ValidationError, sources: dict[str, str]) -> str:
    """One sentence for all that is wrong, each naming the key, its value, and where it was given."""
    lines = []
    for problem in error.errors():
        key = str(problem["loc"][0]) if problem["loc"] else ""
        where = sources.get(key, "the defaults")
        if not key:
            lines.append(problem["msg"].removeprefix("Value error, "))
        elif problem["type"] == "extra_forbidden":
            lines.append(f"{key} (in {where}) is not a setting; see `ringfence config list`")
        else:
            value = "" if key == "database" else f"{problem['input']!r} "  # a database URL may hold a password
            lines.append(f"{key}: {problem['msg']} ({value}in {where})")
    return "; ".join(lines)
