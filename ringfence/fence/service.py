"""Use cases of sandboxes: who may make them and touch them, what each is to become, and what became of it.

A person's wish and what came of it are two transactions. The first says what is `wanted` (and a new sandbox is
`creating`); then `lives.py` does it; the second says how things stand. A server that dies in between finds the wish
when it comes back.

    ask ──► wanted, event ──► lives ──► began | ended | crashed | failed | destroyed ──► state, event
"""

import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ringfence.fence import store
from ringfence.fence.model import (
    ENV_BYTES,
    LABELS,
    OWN_IMAGE,
    Action,
    Cause,
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
    check_image_name,
    check_sandbox_name,
    crashes_with,
    image_env,
    is_crash_loop,
    is_needed,
    unenforceable,
    with_defaults,
)
from ringfence.fence.runtimes.model import Capabilities, Unsupported
from ringfence.kernel.auth.model import Principal, Role, check_name
from ringfence.kernel.clock import DAY, SECOND
from ringfence.kernel.database import Transaction
from ringfence.kernel.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from ringfence.kernel.events.model import SYSTEM, Actor
from ringfence.kernel.ids import new
from ringfence.settings import Settings

LAST = "zzzz"  # above every id
NAMES = 50  # made-up names that are tried
_MANNERS = (
    "able brave calm eager fair glad keen kind lucid merry neat plain quick ready sound still swift tidy warm wise"
)
_BEASTS = (
    "badger crane dingo eland finch gecko heron ibex jackal koala lemur marten newt otter puma quail raven seal tern"
)

Sees = Callable[[Transaction, Principal, str], object]  # raises NotFound for a project that is not theirs to see


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a new sandbox is to be; None: made up, or the default."""

    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    project: str | None = None
    agent: str | None = None
    image: str | None = None
    snapshot: str | None = None
    user: User | None = None
    read_only: bool = False
    memory_disk: bool = False
    limits: Limits = field(default_factory=Limits)
    best_effort: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    on_crash: OnCrash = OnCrash.RESTART
    ttl: float | None = None
    idle_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """What the runtime of this server can do."""

    runtime: str
    capabilities: Capabilities


class Fence:
    def __init__(self, settings: Settings, sees: Sees) -> None:
        self._settings = settings
        self.node = ""  # which server this is; known once it is open
        self._sees = sees
        self.offer: Offer | None = None  # while there is no runtime
        self.without = "this server has no runtime yet"  # why
        self.signs: dict[str, int] = {}  # when something last ran in each, until the sweep has written it down
        self.is_frozen: Callable[[Transaction, str], bool] = lambda tx, agent: False  # paused, with all it runs
        self.is_busy: Callable[[str], bool] = lambda sandbox_id: False  # whether something runs in it now

    # Reading --------------------------------------------------------------------------------------------------------

    def find(self, tx: Transaction, by: Principal, ident: str, *, held: bool = False) -> Sandbox:
        """By its id, or by its name while it lives; `held`: nobody else changes it until this transaction ends."""
        if ident.startswith("sbx_"):
            row = tx.row(store.SANDBOX_HELD if held else store.SANDBOX, id=ident)
        else:
            row = tx.row(store.NAMED_HELD if held else store.NAMED, name=ident)
        found = None if row is None else store.sandbox(row)
        if found is None or not self.may_see(by, found):
            raise NotFound(f"there is no sandbox {ident!r:.80}; GET /api/v1/sandboxes lists those you may see")
        return found

    def may_see(self, by: Principal, sandbox: Sandbox | Snapshot) -> bool:
        """An agent sees its own, people with some projects those of their projects."""
        if by.is_agent:
            return isinstance(sandbox, Sandbox) and sandbox.agent == by.name
        return by.is_person and (by.projects is None or sandbox.project in by.projects)

    def find_to_use(self, tx: Transaction, by: Principal, ident: str) -> Sandbox:
        """The sandbox, if `by` may run programs in it and touch its files, and it runs."""
        found = self.find(tx, by, ident)
        self.check_use(by, found)
        return found

    def check_use(self, by: Principal, sandbox: Sandbox) -> None:
        """Refuse who may not use a sandbox that they see, and one that does not run."""
        self._may_use(by, sandbox)
        is_needed(Action.USE, sandbox)

    def _may_use(self, by: Principal, sandbox: Sandbox) -> None:
        if not by.is_agent and not by.may(Role.OPERATOR):
            raise Forbidden(
                f"you are a {by.role}: running programs in sandboxes is for operators, and for the agent it belongs to",
                code="role", project=sandbox.project, subject=sandbox.id,
            )  # fmt: skip

    def page(
        self,
        tx: Transaction,
        by: Principal,
        cursor: str,
        limit: int,
        *,
        filters: Mapping[str, str],
        labels: Sequence[tuple[str, str | None]],
    ) -> list[Sandbox]:
        """Newest first; fewer than `limit` only at the end."""
        found: list[Sandbox] = []
        while True:
            rows = tx.rows(store.PAGE, cursor=cursor or LAST, limit=limit, **filters)
            for sandbox in map(store.sandbox, rows):
                if self.may_see(by, sandbox) and _has(sandbox, labels):
                    found.append(sandbox)
            if len(rows) < limit or len(found) >= limit:
                return found[:limit]
            cursor = rows[-1][0]

    def again(self, tx: Transaction, sandbox_id: str, *, held: bool = True) -> Sandbox:
        """As it is now."""
        row = tx.row(store.SANDBOX_HELD if held else store.SANDBOX, id=sandbox_id)
        if row is None:
            raise NotFound(f"there is no sandbox {sandbox_id!r:.80}")
        return store.sandbox(row)

    def living(self, tx: Transaction) -> list[Sandbox]:
        """All on this node that are not destroyed."""
        return [store.sandbox(row) for row in tx.rows(store.LIVING_ON, node=self.node)]

    # Creating and changing ------------------------------------------------------------------------------------------

    def create(self, tx: Transaction, by: Principal, wish: Wish) -> Sandbox:
        offer = self._offer()
        self._check_place(tx, by, wish)
        snapshot = None if wish.snapshot is None else self.snapshot(tx, by, wish.snapshot)
        image, config = self._image(tx, wish, snapshot)
        user = wish.user or (User.AGENT if snapshot is None else snapshot.user)
        limits = self._limits(offer, wish)
        if user not in offer.capabilities.users:
            raise _cannot(offer, f"user: {user}", user)
        sandbox_id, name = new("sbx"), self._name(tx, wish.name)
        self._check_quota(tx, by, limits)
        idle = wish.idle_timeout if wish.idle_timeout is not None else self._settings.sandbox_idle
        sandbox = Sandbox(
            id=sandbox_id, name=name, node=self.node, labels=_labels(wish.labels), owner=by.actor.name,
            project=wish.project, agent=wish.agent, runtime=offer.runtime, image=image, user=user,
            read_only=wish.read_only, memory_disk=wish.memory_disk, limits=limits, best_effort=wish.best_effort,
            env=_env({**image_env(config), **wish.env}), workdir=config.workdir or None,
            snapshot=None if snapshot is None else snapshot.id, on_crash=wish.on_crash,
            ttl=wish.ttl or None, expires_at=_after(tx.now, wish.ttl), idle_timeout=idle or None,
            state=State.CREATING, wanted=Wanted.RUNNING, enforced=Enforced(), life=None, cause=None, error="",
            restarts=0, crashes=(), created_at=tx.now, started_at=None, ended_at=None, active_at=tx.now,
            destroyed_at=None,
        )  # fmt: skip
        tx.run(store.ADD, **store.columns(sandbox))
        told = {"image": image, "runtime": offer.runtime, "user": user, "limits": limits_told(limits)}
        self._tell(tx, "sandbox_created", by.actor, sandbox, **told)
        return sandbox

    def change(
        self,
        tx: Transaction,
        by: Principal,
        ident: str,
        *,
        name: str | None,
        labels: Mapping[str, str] | None,
        ttl: float | None,
        idle_timeout: float | None,
    ) -> Sandbox:
        """None: as it was; a ttl or a timeout of 0: none any more."""
        sandbox = self._to_steer(tx, by, ident)
        if sandbox.state is State.DESTROYED:
            raise Conflict(f"sandbox {sandbox.name!r} is destroyed: create another", code="sandbox_destroyed")
        given: dict[str, Any] = {}
        if name is not None and name != sandbox.name:
            given["name"] = self._name(tx, name)
        if labels is not None:
            given["labels"] = _labels(labels)
        if ttl is not None:
            given |= {"ttl": ttl or None, "expires_at": _after(tx.now, ttl)}
        if idle_timeout is not None:
            given |= {"idle_timeout": idle_timeout or None, "active_at": tx.now}
        changed = replace(sandbox, **given)
        self._save(tx, changed)
        told = {key: getattr(changed, key) for key in ("name", "labels", "ttl", "idle_timeout") if key in given}
        self._tell(tx, "sandbox_changed", by.actor, changed, changed=told)
        return changed

    def _offer(self) -> Offer:
        if self.offer is None:
            raise Unavailable(
                f"no sandboxes can run here now: {self.without}; `ringfence doctor` says what this host lacks",
                code="no_runtime",
            )
        return self.offer

    def _check_place(self, tx: Transaction, by: Principal, wish: Wish) -> None:
        if wish.project is not None:
            self._sees(tx, by, wish.project)
        elif by.projects is not None:
            raise Forbidden("your access is limited to some projects: say which `project` the sandbox is for")
        if wish.agent is not None:
            check_name(wish.agent, "agent")

    def _image(self, tx: Transaction, wish: Wish, snapshot: Snapshot | None) -> tuple[str, ImageConfig]:
        """Its name, and what it says of programs."""
        if snapshot is not None:
            if wish.image is not None and wish.image != snapshot.image:
                raise Invalid(f"the snapshot {snapshot.name!r} is of the image {snapshot.image!r}: leave out `image`")
            if snapshot.node != self.node:
                raise Unsupported(f"the snapshot {snapshot.name!r} lies on another host: create from it there")
        name = snapshot.image if snapshot is not None else wish.image or self._settings.sandbox_image
        if name == OWN_IMAGE:
            return name, ImageConfig()
        row = tx.row(store.IMAGE, node=self.node, name=name)
        if row is None:
            known = [OWN_IMAGE, *sorted(self.image_names(tx))]
            raise Unsupported(
                f"there is no image {name!r:.200} here; there are: {', '.join(known)[:1000]}; "
                "`ringfence image import` brings others",
                code="unknown_image",
            )
        return name, store.image(row).image.config

    def _limits(self, offer: Offer, wish: Wish) -> Limits:
        settings = self._settings
        defaults = Limits(
            memory=settings.sandbox_memory or None, cpus=settings.sandbox_cpus or None,
            pids=settings.sandbox_pids or None, disk=settings.sandbox_disk or None,
        )  # fmt: skip
        limits = with_defaults(wish.limits, defaults, best_effort=wish.best_effort)
        if (name := unenforceable(limits, offer.capabilities.limits, memory_disk=wish.memory_disk)) is not None:
            raise _cannot(offer, f"the limit {name}", name, f", or ask for it as best_effort, or leave {name} out")
        return limits

    def _check_quota(self, tx: Transaction, by: Principal, limits: Limits) -> None:
        count, memory = tx.row(store.HELD_BY, owner=by.actor.name) or (0, 0)
        most, most_memory = self._settings.quota_sandboxes, self._settings.quota_memory
        if most and count >= most:
            raise Conflict(
                f"you have {count} sandboxes, and each may have {most} (quota_sandboxes): remove some",
                code="quota", quota=most,
            )  # fmt: skip
        if most_memory and (limits.memory is None or memory + limits.memory > most_memory):
            asked = "without a limit" if limits.memory is None else f"of {limits.memory} bytes"
            raise Conflict(
                f"your sandboxes may use {memory} bytes of memory, and {most_memory} is your quota (quota_memory): "
                f"one more {asked} does not fit; ask for less, or remove some",
                code="quota", quota=most_memory,
            )  # fmt: skip

    def _name(self, tx: Transaction, wanted: str | None) -> str:
        if wanted is not None:
            if tx.row(store.NAMED, name=check_sandbox_name(wanted)) is not None:
                raise Conflict(f"there is a sandbox {wanted!r} already: choose another name", code="name_taken")
            return wanted
        for attempt in itertools.count(1):
            parts = [secrets.choice(_MANNERS.split()), secrets.choice(_BEASTS.split())]
            name = "-".join([*parts, secrets.token_hex(2 if attempt < NAMES else 8)])
            if tx.row(store.NAMED, name=name) is None:
                return name
        raise AssertionError("unreachable")

    # What is wanted -------------------------------------------------------------------------------------------------

    def ask(self, tx: Transaction, by: Principal, ident: str, action: Action) -> tuple[Sandbox, bool]:
        """What `by` wants done, written down; and whether there is anything to do."""
        sandbox = self._to_steer(tx, by, ident)
        if sandbox.node != self.node:
            raise Unavailable(f"sandbox {sandbox.name!r} lives on another server ({sandbox.node}): ask that one")
        if not is_needed(action, sandbox):
            return sandbox, False
        if action not in _ASKED:
            return sandbox, True
        kind, wanted = _ASKED[action]
        asked = replace(sandbox, wanted=wanted)
        if action in (Action.START, Action.RESTART, Action.RECREATE):
            asked = replace(asked, crashes=(), error="")
        if action is Action.RECREATE:
            asked = asked.stepped(State.CREATING, life=None, started_at=None, cause=None)
        self._save(tx, asked)
        self._tell(tx, kind, by.actor, asked)
        return asked, True

    def _to_steer(self, tx: Transaction, by: Principal, ident: str) -> Sandbox:
        sandbox = self.find(tx, by, ident, held=True)
        if not by.may(Role.OPERATOR):
            raise Forbidden(
                "steering sandboxes is for operators and admins",
                code="role", project=sandbox.project, agent=sandbox.agent, subject=sandbox.id,
            )  # fmt: skip
        return sandbox

    # What becomes of their agents -----------------------------------------------------------------------------------

    def freeze(self, tx: Transaction, by: Actor, agent: str, reason: str) -> int:
        """Let the agent's sandboxes stand still until it goes on; stop them where they cannot."""
        if self.offer is not None and not self.offer.capabilities.pause:
            return self.halt(tx, by, agent, reason)
        moving = [it for it in self._of(tx, agent, Wanted.RUNNING) if it.state is not State.PAUSED]
        return self._want(tx, by, moving, Wanted.PAUSED, "sandbox_freezing", f"agent {agent} was {reason}")

    def thaw(self, tx: Transaction, by: Actor, agent: str, reason: str) -> int:
        """What stands still because of its agent may go on. It is wanted so until it does."""
        still = self._of(tx, agent, Wanted.PAUSED)
        return self._want(tx, by, still, Wanted.PAUSED, "sandbox_thawing", f"agent {agent} was {reason}")

    def halt(self, tx: Transaction, by: Actor, agent: str, reason: str) -> int:
        """End what runs in the agent's sandboxes; their files stay."""
        going = self._of(tx, agent, Wanted.RUNNING, Wanted.PAUSED)
        return self._want(tx, by, going, Wanted.STOPPED, "sandbox_halted", f"agent {agent} was {reason}")

    def _of(self, tx: Transaction, agent: str, *wanted: Wanted) -> list[Sandbox]:
        found = [store.sandbox(row) for row in tx.rows(store.LIVING_OF_AGENT, agent=agent)]
        return [each for each in found if each.wanted in wanted]

    def _want(
        self, tx: Transaction, by: Actor, sandboxes: list[Sandbox], wanted: Wanted, kind: str, reason: str
    ) -> int:
        """`Lives` sees the events, and acts."""
        for sandbox in sandboxes:
            self._save(tx, changed := replace(sandbox, wanted=wanted))
            self._tell(tx, kind, by, changed, reason=reason)
        return len(sandboxes)

    # What became of it ----------------------------------------------------------------------------------------------

    def began(
        self, tx: Transaction, by: Actor, sandbox_id: str, life: Life, enforced: Enforced | None, *, again: bool
    ) -> Sandbox:
        """It runs; `again`: after a crash."""
        before = self.again(tx, sandbox_id)
        sandbox = before.stepped(
            State.RUNNING, life=life, started_at=tx.now, ended_at=None, active_at=tx.now, cause=None, error="",
            enforced=enforced or before.enforced, restarts=before.restarts + again,
        )  # fmt: skip
        self._save(tx, sandbox)
        self._tell(tx, "sandbox_started", by, sandbox, enforced=sandbox.enforced.how, restarts=sandbox.restarts)
        return sandbox

    def ended(self, tx: Transaction, by: Actor, sandbox_id: str) -> Sandbox:
        """It was stopped."""
        before = self.again(tx, sandbox_id)
        sandbox = before.stepped(State.STOPPED, life=None, ended_at=tx.now, cause=Cause.STOPPED)
        self._save(tx, sandbox)
        self._tell(tx, "sandbox_stopped", by, sandbox)
        return sandbox

    def crashed(self, tx: Transaction, sandbox_id: str, cause: Cause) -> Sandbox:
        """Its warden ended by itself: it is to be started again, unless that is not wanted, or happens too often."""
        before = self.again(tx, sandbox_id)
        lived = None if before.started_at is None else tx.now - before.started_at
        crashes = crashes_with(before.crashes, tx.now, lived)
        loop = is_crash_loop(crashes)
        restart = before.on_crash is OnCrash.RESTART and before.wanted is Wanted.RUNNING and not loop
        sandbox = before.stepped(
            State.FAILED if loop else State.STOPPED, life=None, ended_at=tx.now, cause=cause, crashes=crashes,
            wanted=before.wanted if restart or before.wanted is Wanted.DESTROYED else Wanted.STOPPED,
            error=f"it crashed {len(crashes)} times in ten minutes, each time within a minute" if loop else "",
        )  # fmt: skip
        self._save(tx, sandbox)
        lived_seconds = None if lived is None else lived // SECOND
        self._tell(tx, "sandbox_crashed", SYSTEM, sandbox, cause=cause, lived_seconds=lived_seconds, restarting=restart)
        if loop:
            self._tell(tx, "sandbox_crash_loop", SYSTEM, sandbox, cause=cause, crashes=len(crashes), alert=True)
        return sandbox

    def failed(self, tx: Transaction, by: Actor, sandbox_id: str, error: str) -> Sandbox:
        """It could not be started."""
        sandbox = self.again(tx, sandbox_id).stepped(State.FAILED, wanted=Wanted.STOPPED, life=None, ended_at=tx.now,
            error=error[:2000],
        )  # fmt: skip
        self._save(tx, sandbox)
        self._tell(tx, "sandbox_failed", by, sandbox, error=sandbox.error)
        return sandbox

    def lost(self, tx: Transaction, sandbox_id: str, why: str) -> Sandbox:
        """It ran, and is gone without a word."""
        sandbox = self.again(tx, sandbox_id).stepped(
            State.LOST, wanted=Wanted.STOPPED, life=None, ended_at=tx.now, error=why
        )
        self._save(tx, sandbox)
        self._tell(tx, "sandbox_lost", SYSTEM, sandbox, reason=why)
        return sandbox

    def reached(self, tx: Transaction, sandbox_id: str, kills: int) -> None:
        """Programs in it were killed at the limit of memory; it goes on."""
        sandbox = self.again(tx, sandbox_id, held=False)
        told = {"limit": "memory", "amount": sandbox.limits.memory, "kills": kills}
        self._tell(tx, "sandbox_limit_reached", SYSTEM, sandbox, cause=Cause.MEMORY, **told)

    def froze(self, tx: Transaction, by: Actor, sandbox_id: str) -> Sandbox:
        sandbox = self.again(tx, sandbox_id).stepped(State.PAUSED)
        self._save(tx, sandbox)
        self._tell(tx, "sandbox_paused", by, sandbox)
        return sandbox

    def thawed(self, tx: Transaction, by: Actor, sandbox_id: str) -> Sandbox:
        before = self.again(tx, sandbox_id)
        wanted = Wanted.RUNNING if before.wanted is Wanted.PAUSED else before.wanted
        sandbox = before.stepped(State.RUNNING, wanted=wanted, active_at=tx.now)
        self._save(tx, sandbox)
        self._tell(tx, "sandbox_resumed", by, sandbox)
        return sandbox

    def destroyed(self, tx: Transaction, by: Actor, sandbox_id: str) -> Sandbox:
        before = self.again(tx, sandbox_id)
        sandbox = before.stepped(State.DESTROYED, life=None, destroyed_at=tx.now, ended_at=tx.now, env={})
        self._save(tx, sandbox)
        self._tell(tx, "sandbox_destroyed", by, sandbox)
        self.signs.pop(sandbox_id, None)
        return sandbox

    def reconciled(self, tx: Transaction, figures: Mapping[str, int]) -> None:
        tx.record("fence_reconciled", SYSTEM, {"node": self.node, **figures}, subject=self.node)

    # Snapshots ------------------------------------------------------------------------------------------------------

    def snapshot(self, tx: Transaction, by: Principal, ident: str) -> Snapshot:
        row = tx.row(store.SNAPSHOT, ident=ident)
        found = None if row is None else store.snapshot(row)
        if found is None or not self.may_see(by, found):
            raise NotFound(f"there is no snapshot {ident!r:.80}; GET /api/v1/snapshots lists those you may see")
        return found

    def snapshots(self, tx: Transaction, by: Principal, cursor: str, limit: int) -> list[Snapshot]:
        """Newest first; fewer than `limit` only at the end."""
        found: list[Snapshot] = []
        while True:
            rows = tx.rows(store.SNAPSHOTS, cursor=cursor or LAST, limit=limit)
            found += [each for each in map(store.snapshot, rows) if self.may_see(by, each)]
            if len(rows) < limit or len(found) >= limit:
                return found[:limit]
            cursor = rows[-1][0]

    def check_snapshot(self, tx: Transaction, by: Principal, ident: str, name: str | None) -> tuple[Sandbox, str]:
        """The sandbox to take it of, and its name."""
        if not self._offer().capabilities.snapshot:
            raise _cannot(self._offer(), "snapshots", "snapshot")
        sandbox, _ = self.ask(tx, by, ident, Action.SNAPSHOT)
        name = check_sandbox_name(name) if name else f"{sandbox.name[:50]}-{secrets.token_hex(3)}"
        if tx.row(store.SNAPSHOT, ident=name) is not None:
            raise Conflict(f"there is a snapshot {name!r} already: choose another name", code="name_taken")
        return sandbox, name

    def took_snapshot(
        self, tx: Transaction, by: Principal, sandbox: Sandbox, snapshot_id: str, name: str, size: int
    ) -> Snapshot:
        if tx.row(store.SNAPSHOT, ident=name) is not None:
            raise Conflict(f"there is a snapshot {name!r} already: choose another name", code="name_taken")
        taken = Snapshot(
            id=snapshot_id, name=name, node=self.node, sandbox=sandbox.id, image=sandbox.image, user=sandbox.user,
            owner=by.actor.name, project=sandbox.project, size=size, created_at=tx.now,
        )  # fmt: skip
        tx.run(
            store.ADD_SNAPSHOT,
            id=taken.id, name=name, node=self.node, sandbox=sandbox.id, image=taken.image, user=taken.user.value,
            owner=taken.owner, project=taken.project, size=size, created_at=tx.now,
        )  # fmt: skip
        self._tell(tx, "snapshot_created", by.actor, sandbox, snapshot=taken.id, snapshot_name=name, size=size)
        return taken

    def remove_snapshot(self, tx: Transaction, by: Principal, ident: str) -> Snapshot:
        found = self.snapshot(tx, by, ident)
        if not by.may(Role.OPERATOR):
            raise Forbidden("removing snapshots is for operators and admins", code="role", project=found.project)
        if (user := tx.row(store.USES_SNAPSHOT, snapshot=found.id)) is not None:
            raise Conflict(
                f"sandbox {user[0]!r} begins with the snapshot {found.name!r}: remove it first",
                code="snapshot_used", project=found.project, subject=found.id,
            )  # fmt: skip
        tx.run(store.REMOVE_SNAPSHOT, id=found.id)
        told = {"snapshot": found.id, "snapshot_name": found.name}
        tx.record("snapshot_deleted", by.actor, told, project=found.project, subject=found.id)
        return found

    # Images ---------------------------------------------------------------------------------------------------------

    def image(self, tx: Transaction, name: str) -> ImportedImage:
        if (row := tx.row(store.IMAGE, node=self.node, name=name)) is None:
            raise NotFound(f"there is no image {name!r:.80} on this host; GET /api/v1/images lists those there are")
        return store.image(row)

    def images(self, tx: Transaction, cursor: str, limit: int) -> list[ImportedImage]:
        """By name. `host`, which every runtime has, is not among them."""
        return [store.image(row) for row in tx.rows(store.IMAGES, node=self.node, cursor=cursor, limit=limit)]

    def image_names(self, tx: Transaction) -> set[str]:
        return {row[0] for row in tx.rows(store.IMAGE_NAMES, node=self.node)}

    def check_import(self, tx: Transaction, by: Principal, name: str) -> None:
        if not by.may(Role.OPERATOR):
            raise Forbidden("importing images is for operators and admins", code="role")
        if tx.row(store.IMAGE, node=self.node, name=check_image_name(name)) is not None:
            raise Conflict(f"there is an image {name!r} already: choose another name, or remove it", code="name_taken")

    def imported(self, tx: Transaction, by: Principal, image: Image) -> ImportedImage:
        self.check_import(tx, by, image.name)
        found = ImportedImage(image=image, node=self.node, owner=by.actor.name, created_at=tx.now)
        tx.run(store.ADD_IMAGE, **store.image_columns(found))
        self._tell_of_image(tx, "image_imported", by.actor, found)
        return found

    def remove_image(self, tx: Transaction, by: Principal, name: str) -> ImportedImage:
        found = self.image(tx, name)
        if not by.may(Role.ADMIN) and found.owner != by.actor.name:
            raise Forbidden(
                f"the image {name!r} is {found.owner}'s: it is for them and for admins to remove", code="role"
            )
        if (user := tx.row(store.USES_IMAGE, node=self.node, image=name)) is not None:
            raise Conflict(
                f"{user[0]!r} is made of the image {name!r}: remove it first", code="image_used", subject=name
            )
        tx.run(store.REMOVE_IMAGE, node=self.node, name=name)
        self._tell_of_image(tx, "image_removed", by.actor, found)
        return found

    def unused_images(self, tx: Transaction) -> list[str]:
        names = sorted(self.image_names(tx))
        return [name for name in names if tx.row(store.USES_IMAGE, node=self.node, image=name) is None]

    def _tell_of_image(self, tx: Transaction, kind: str, by: Actor, found: ImportedImage) -> None:
        it = found.image
        told = {"image": it.name, "digest": it.digest, "size": it.size, "format": it.format, "node": found.node}
        tx.record(kind, by, told, subject=it.name)

    # Chores ---------------------------------------------------------------------------------------------------------

    def sweep(self, tx: Transaction) -> None:
        """End those whose time is over, and stop those in which nothing runs. `Lives` sees the events, and acts."""
        for row in tx.rows(store.EXPIRED, node=self.node, at=tx.now):
            expired = replace(store.sandbox(row), wanted=Wanted.DESTROYED)
            self._save(tx, expired)
            self._tell(tx, "sandbox_expired", SYSTEM, expired, ttl=expired.ttl)
        for row in tx.rows(store.MAY_BE_IDLE, node=self.node):
            sandbox = store.sandbox(row)
            sign = tx.now if self.is_busy(sandbox.id) else self.signs.get(sandbox.id, 0)
            active_at = max(sandbox.active_at, sign)
            if active_at > sandbox.active_at:
                tx.run(store.ACTIVE, which=sandbox.id, at=active_at)
            assert sandbox.idle_timeout is not None
            if tx.now - active_at > sandbox.idle_timeout * SECOND:
                self._save(tx, idle := replace(sandbox, wanted=Wanted.STOPPED, active_at=active_at))
                self._tell(tx, "sandbox_idle", SYSTEM, idle, idle_timeout=sandbox.idle_timeout)

    def forget(self, tx: Transaction) -> None:
        """Sandboxes that were destroyed long ago; their events stay."""
        tx.run(store.FORGET, before=tx.now - int(self._settings.keep_sandboxes_days * DAY))

    # Inside ---------------------------------------------------------------------------------------------------------

    def _save(self, tx: Transaction, sandbox: Sandbox) -> None:
        tx.run(store.SAVE, **store.changes(sandbox))

    def _tell(self, tx: Transaction, kind: str, by: Actor, sandbox: Sandbox, **more: Any) -> None:
        told = {"sandbox": sandbox.id, "name": sandbox.name, "node": sandbox.node, "state": sandbox.state, **more}
        tx.record(kind, by, told, project=sandbox.project, agent=sandbox.agent, subject=sandbox.id)


_ASKED = {
    Action.START: ("sandbox_starting", Wanted.RUNNING),
    Action.STOP: ("sandbox_stopping", Wanted.STOPPED),
    Action.RESTART: ("sandbox_restarting", Wanted.RUNNING),
    Action.RECREATE: ("sandbox_recreating", Wanted.RUNNING),
    Action.DESTROY: ("sandbox_destroying", Wanted.DESTROYED),
}


def limits_told(limits: Limits) -> dict[str, object]:
    values = {name: getattr(limits, name) for name in ("memory", "cpus", "pids", "disk")}
    return {name: value for name, value in values.items() if value is not None}


def _cannot(offer: Offer, what: str, name: str, otherwise: str = "") -> Unsupported:
    how = offer.capabilities.lacks.get(name, "`ringfence doctor` says what would enable it")
    return Unsupported(
        f"{what} cannot be had from the runtime {offer.runtime!r} on this host. To enable it: {how}{otherwise}",
        lacks=name,
    )


def _after(now: int, seconds: float | None) -> int | None:
    return now + int(seconds * SECOND) if seconds else None


def _has(sandbox: Sandbox, labels: Sequence[tuple[str, str | None]]) -> bool:
    return all(name in sandbox.labels and value in (None, sandbox.labels[name]) for name, value in labels)


def _labels(given: Mapping[str, str]) -> dict[str, str]:
    if len(given) > LABELS:
        raise Invalid(f"{len(given)} labels are too many: at most {LABELS}")
    return dict(given)


def _env(given: Mapping[str, str]) -> dict[str, str]:
    for name in given:
        if not name or "=" in name:
            raise Invalid(f"{name[:80]!r} cannot be the name of an environment variable: it is empty, or holds a =")
    if (size := sum(len(name.encode()) + len(value.encode()) + 2 for name, value in given.items())) > ENV_BYTES:
        raise Invalid(f"the environment has {size} bytes; at most {ENV_BYTES} are taken")
    return dict(given)
