"""All SQL about sandboxes and snapshots, and how its rows become facts."""

import json
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam as p

from ringfence.fence.model import (
    LIMITS,
    Enforced,
    Image,
    ImageConfig,
    ImportedImage,
    Life,
    Limits,
    OnCrash,
    Sandbox,
    Snapshot,
    State,
    User,
    Wanted,
)
from ringfence.kernel.database import Query, Row
from ringfence.kernel.tables import metadata

_alive = sa.text("state <> 'destroyed'")

sandboxes = sa.Table(
    "sandboxes",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("project", sa.Text),
    sa.Column("agent", sa.Text),
    sa.Column("runtime", sa.Text, nullable=False),
    sa.Column("image", sa.Text, nullable=False),
    sa.Column("user", sa.Text, nullable=False),
    sa.Column("read_only", sa.Integer, nullable=False),
    sa.Column("memory_disk", sa.Integer, nullable=False),
    sa.Column("memory", sa.BigInteger),
    sa.Column("cpus", sa.Float),
    sa.Column("pids", sa.BigInteger),
    sa.Column("disk", sa.BigInteger),
    sa.Column("requested", sa.Text, nullable=False),
    sa.Column("best_effort", sa.Integer, nullable=False),
    sa.Column("env", sa.Text, nullable=False),
    sa.Column("snapshot", sa.Text),
    sa.Column("on_crash", sa.Text, nullable=False),
    sa.Column("ttl", sa.Float),
    sa.Column("expires_at", sa.BigInteger),
    sa.Column("idle_timeout", sa.Float),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("wanted", sa.Text, nullable=False),
    sa.Column("enforced", sa.Text, nullable=False),
    sa.Column("life", sa.Text),
    sa.Column("cause", sa.Text),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("restarts", sa.BigInteger, nullable=False),
    sa.Column("crashes", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("started_at", sa.BigInteger),
    sa.Column("ended_at", sa.BigInteger),
    sa.Column("active_at", sa.BigInteger, nullable=False),
    sa.Column("destroyed_at", sa.BigInteger),
    sa.Column("workdir", sa.Text),
    sa.Index("sandboxes_by_name", "name", unique=True, sqlite_where=_alive, postgresql_where=_alive),
    sa.Index("sandboxes_by_node", "node", "state"),
    sa.Index("sandboxes_by_owner", "owner", "state"),
    sa.Index("sandboxes_by_agent", "agent"),
    sa.Index("sandboxes_by_expiry", "expires_at"),
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("sandbox", sa.Text, nullable=False),
    sa.Column("image", sa.Text, nullable=False),
    sa.Column("user", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("project", sa.Text),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Index("snapshots_by_name", "name", unique=True),
)

images = sa.Table(
    "images",
    metadata,
    sa.Column("node", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("layers", sa.Text, nullable=False),
    sa.Column("config", sa.Text, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("format", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
)

_c = sandboxes.c
_live = _c.state != State.DESTROYED.value
_sandbox = sa.select(sandboxes)
_FIELDS = _c.keys()

# Sandboxes ------------------------------------------------------------------------------------------------------------

SANDBOX = Query(_sandbox.where(_c.id == p("id")))
SANDBOX_HELD = Query(_sandbox.where(_c.id == p("id")).with_for_update())
NAMED = Query(_sandbox.where(_c.name == p("name"), _live))
NAMED_HELD = Query(_sandbox.where(_c.name == p("name"), _live).with_for_update())
PAGE = Query(
    _sandbox.where(
        _c.id < p("cursor"),
        # Destroyed ones are told of when they are asked for.
        sa.or_(sa.and_(p("state") == "", _live), _c.state == p("state")),
        sa.or_(p("project") == "", _c.project == p("project")),
        sa.or_(p("agent") == "", _c.agent == p("agent")),
        sa.or_(p("owner") == "", _c.owner == p("owner")),
    )
    .order_by(_c.id.desc())
    .limit(p("limit"))
)
LIVING_ON = Query(_sandbox.where(_c.node == p("node"), _live).order_by(_c.id))
LIVING_OF_AGENT = Query(_sandbox.where(_c.agent == p("agent"), _live).order_by(_c.id).with_for_update())
HELD_BY = Query(
    sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(_c.memory), 0)).where(_c.owner == p("owner"), _live)
)
EXPIRED = Query(
    _sandbox.where(
        _c.node == p("node"), _c.expires_at <= p("at"), _live, _c.wanted != Wanted.DESTROYED.value
    ).with_for_update()
)
MAY_BE_IDLE = Query(
    _sandbox.where(
        _c.node == p("node"),
        _c.state == State.RUNNING.value,
        _c.wanted == Wanted.RUNNING.value,
        _c.idle_timeout.is_not(None),
    ).with_for_update()
)
ACTIVE = Query(sa.update(sandboxes).where(_c.id == p("which"), _c.active_at < p("at")).values(active_at=p("at")))
ADD = Query(sa.insert(sandboxes))
_FIXED = ("id", "node", "owner", "project", "agent", "runtime", "created_at")
SAVE = Query(
    sa.update(sandboxes)
    .where(_c.id == p("which"))
    .values({name: p(f"new_{name}") for name in _FIELDS if name not in _FIXED})
)
FORGET = Query(sa.delete(sandboxes).where(_c.destroyed_at < p("before")))

# Snapshots ------------------------------------------------------------------------------------------------------------

_s = snapshots.c
SNAPSHOT = Query(sa.select(snapshots).where(sa.or_(_s.id == p("ident"), _s.name == p("ident"))))
SNAPSHOTS = Query(sa.select(snapshots).where(_s.id < p("cursor")).order_by(_s.id.desc()).limit(p("limit")))
ADD_SNAPSHOT = Query(sa.insert(snapshots))
REMOVE_SNAPSHOT = Query(sa.delete(snapshots).where(_s.id == p("id")))
USES_SNAPSHOT = Query(sa.select(_c.name).where(_c.snapshot == p("snapshot"), _live).order_by(_c.name))

# Images ---------------------------------------------------------------------------------------------------------------

_i = images.c
IMAGE = Query(sa.select(images).where(_i.node == p("node"), _i.name == p("name")))
IMAGES = Query(sa.select(images).where(_i.node == p("node"), _i.name > p("cursor")).order_by(_i.name).limit(p("limit")))
IMAGE_NAMES = Query(sa.select(_i.name).where(_i.node == p("node")))
ADD_IMAGE = Query(sa.insert(images))
REMOVE_IMAGE = Query(sa.delete(images).where(_i.node == p("node"), _i.name == p("name")))
USES_IMAGE = Query(
    sa.union_all(
        sa.select(_c.name).where(_c.node == p("node"), _c.image == p("image"), _live),
        sa.select(_s.name).where(_s.node == p("node"), _s.image == p("image")),
    ).limit(1)
)


def sandbox(row: Row) -> Sandbox:
    has = dict(zip(_FIELDS, row, strict=True))
    limits = Limits(**{name: has.pop(name) for name in LIMITS}, requested=frozenset(json.loads(has.pop("requested"))))
    life = has.pop("life")
    return Sandbox(
        **has
        | {
            "limits": limits,
            "labels": json.loads(has["labels"]),
            "env": json.loads(has["env"]),
            "enforced": Enforced(how=json.loads(has["enforced"])),
            "life": None if life is None else Life(**json.loads(life)),
            "crashes": tuple(json.loads(has["crashes"])),
            "user": User(has["user"]),
            "on_crash": OnCrash(has["on_crash"]),
            "state": State(has["state"]),
            "wanted": Wanted(has["wanted"]),
            "read_only": bool(has["read_only"]),
            "memory_disk": bool(has["memory_disk"]),
            "best_effort": bool(has["best_effort"]),
        }
    )


def columns(sandbox: Sandbox) -> dict[str, Any]:
    limits = sandbox.limits
    own = {name: getattr(sandbox, name) for name in _FIELDS if name not in (*LIMITS, "requested")}
    return {
        **own,
        **{name: getattr(limits, name) for name in LIMITS},
        "requested": json.dumps(sorted(limits.requested)),
        "labels": json.dumps(sandbox.labels),
        "env": json.dumps(sandbox.env),
        "enforced": json.dumps(sandbox.enforced.how),
        "life": None if sandbox.life is None else json.dumps(asdict(sandbox.life)),
        "crashes": json.dumps(sandbox.crashes),
        "read_only": int(sandbox.read_only),
        "memory_disk": int(sandbox.memory_disk),
        "best_effort": int(sandbox.best_effort),
    }


def changes(sandbox: Sandbox) -> dict[str, Any]:
    """The parameters of SAVE."""
    changed = {f"new_{name}": value for name, value in columns(sandbox).items() if name not in _FIXED}
    return {"which": sandbox.id, **changed}


def snapshot(row: Row) -> Snapshot:
    has = dict(zip(_s.keys(), row, strict=True))
    return Snapshot(**has | {"user": User(has["user"])})


def image(row: Row) -> ImportedImage:
    has = dict(zip(_i.keys(), row, strict=True))
    said: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(has["config"]).items()
    }
    kept = Image(
        name=has["name"], digest=has["digest"], layers=tuple(json.loads(has["layers"])), config=ImageConfig(**said),
        size=has["size"], format=has["format"],
    )  # fmt: skip
    return ImportedImage(image=kept, node=has["node"], owner=has["owner"], created_at=has["created_at"])


def image_columns(imported: ImportedImage) -> dict[str, Any]:
    it = imported.image
    return {
        "node": imported.node, "name": it.name, "digest": it.digest, "layers": json.dumps(it.layers),
        "config": json.dumps(asdict(it.config)), "size": it.size, "format": it.format, "owner": imported.owner,
        "created_at": imported.created_at,
    }  # fmt: skip
