"""Sandboxes and snapshots as a client makes, finds and steers them; `sandbox.py` has one as an object."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ringfence.sdk.asking import Asking
from ringfence.sdk.board import V1
from ringfence.sdk.calls import Call, Content, Json, Repeat, given, path
from ringfence.sdk.steps import Steps, operation
from ringfence.sdk.views import Image, Posture, Pruned, Sandbox, SandboxLogs, SandboxStats, Snapshot

State = Literal["creating", "running", "paused", "stopped", "failed", "lost", "destroyed"]
User = Literal["agent", "root"]
OnCrash = Literal["restart", "stop"]
Size = int | str
UNPACKED_WITHIN = 3600.0  # seconds until an archive that was sent is answered


class SeesSandboxes(Asking):
    """What agents may as well, of their own."""

    @operation
    def get_sandbox(self, sandbox: str) -> Steps[Sandbox]:
        """By its id, or by its name while it lives."""
        return self._get(path(*V1, "sandboxes", sandbox), Sandbox)

    @operation
    def list_sandboxes(
        self,
        *,
        state: State | None = None,
        project: str | None = None,
        agent: str | None = None,
        owner: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> Steps[list[Sandbox]]:
        """Newest first; destroyed ones when their state is asked for."""
        label = [f"{name}={value}" for name, value in (labels or {}).items()] or None
        return self._list(
            path(*V1, "sandboxes"), Sandbox, limit, state=state, project=project, agent=agent, owner=owner, label=label
        )

    @operation
    def sandbox_logs(self, sandbox: str, *, events: int | None = None) -> Steps[SandboxLogs]:
        """What happened to it (its last `events`), and what its warden said last."""
        return self._get(path(*V1, "sandboxes", sandbox, "logs"), SandboxLogs, limit=events)

    @operation
    def sandbox_stats(self, sandbox: str) -> Steps[SandboxStats]:
        """What it uses now; None: its host does not say."""
        return self._get(path(*V1, "sandboxes", sandbox, "stats"), SandboxStats)


class SteersSandboxes(SeesSandboxes):
    @operation
    def create_sandbox(
        self,
        name: str | None = None,
        *,
        image: str | None = None,
        snapshot: str | None = None,
        memory: Size | None = None,
        cpus: float | None = None,
        pids: int | None = None,
        disk: Size | None = None,
        memory_disk: bool | None = None,
        best_effort: bool | None = None,
        user: User | None = None,
        read_only: bool | None = None,
        env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        project: str | None = None,
        agent: str | None = None,
        ttl: float | None = None,
        idle_timeout: float | None = None,
        on_crash: OnCrash | None = None,
        wait: bool | None = None,
    ) -> Steps[Sandbox]:
        """Make a sandbox and start it, once; with `wait=False` the answer comes before it runs.

        Sizes are bytes, or `"512M"`. A limit that its host cannot hold up is refused (`Unsupported`), with the way to
        enable it, unless `best_effort`.
        """
        return self._create(
            path(*V1, "sandboxes"), Sandbox,
            name=name, image=image, snapshot=snapshot, memory=memory, cpus=cpus, pids=pids, disk=disk,
            memory_disk=memory_disk, best_effort=best_effort, user=user, read_only=read_only,
            env=None if env is None else dict(env), labels=None if labels is None else dict(labels), project=project,
            agent=agent, ttl=ttl, idle_timeout=idle_timeout, on_crash=on_crash, wait=wait,
        )  # fmt: skip

    @operation
    def change_sandbox(
        self,
        sandbox: str,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        ttl: float | None = None,
        idle_timeout: float | None = None,
    ) -> Steps[Sandbox]:
        """A `ttl` counts from now; 0: none any more."""
        changed = given(name=name, labels=None if labels is None else dict(labels), ttl=ttl, idle_timeout=idle_timeout)
        return self._change("PATCH", path(*V1, "sandboxes", sandbox), Sandbox, changed)

    @operation
    def start_sandbox(self, sandbox: str) -> Steps[Sandbox]:
        return self._change("POST", path(*V1, "sandboxes", sandbox, "start"), Sandbox)

    @operation
    def stop_sandbox(self, sandbox: str, *, grace: float | None = None) -> Steps[Sandbox]:
        """SIGTERM to everything in it, `grace` seconds, then its end; its files stay."""
        return self._change("POST", path(*V1, "sandboxes", sandbox, "stop"), Sandbox, given(grace=grace))

    @operation
    def restart_sandbox(self, sandbox: str, *, grace: float | None = None) -> Steps[Sandbox]:
        return self._create(path(*V1, "sandboxes", sandbox, "restart"), Sandbox, grace=grace)

    @operation
    def pause_sandbox(self, sandbox: str) -> Steps[Sandbox]:
        """Freeze everything in it, where it stands."""
        return self._change("POST", path(*V1, "sandboxes", sandbox, "pause"), Sandbox)

    @operation
    def resume_sandbox(self, sandbox: str) -> Steps[Sandbox]:
        return self._change("POST", path(*V1, "sandboxes", sandbox, "resume"), Sandbox)

    @operation
    def recreate_sandbox(self, sandbox: str) -> Steps[Sandbox]:
        """Anew from its image or snapshot: its files are gone."""
        return self._create(path(*V1, "sandboxes", sandbox, "recreate"), Sandbox)

    @operation
    def destroy_sandbox(self, sandbox: str) -> Steps[bool]:
        """At once, with its files."""
        return self._agreed(self._remove(path(*V1, "sandboxes", sandbox), Sandbox))

    @operation
    def check_sandbox(self, sandbox: str) -> Steps[Posture]:
        """Try its fence from inside: `verdict` is `fail` where it does not hold, `checks` says what was tried."""
        return self._change("POST", path(*V1, "sandboxes", sandbox, "check"), Posture)

    @operation
    def import_image(self, name: str, archive: str | os.PathLike[str]) -> Steps[Image]:
        """Send an archive: a root filesystem as tar, an OCI layout as tar, or what `docker save` wrote."""
        sent = Call(
            method="POST", path=path(*V1, "images"), reads=Json(Image), query={"name": name},
            content=Content(Path(archive)), within=UNPACKED_WITHIN,
            repeat=Repeat.KEYED, patient=False,
        )  # fmt: skip
        return self._ask(sent)

    @operation
    def import_image_from_server(self, name: str, path_there: str) -> Steps[Image]:
        """A file, or a folder, of the server's own host; for admins."""
        query = {"name": name, "path": path_there}
        return self._ask(
            Call(method="POST", path=path(*V1, "images"), reads=Json(Image), query=query, repeat=Repeat.KEYED)
        )

    @operation
    def list_images(self, *, limit: int | None = None) -> Steps[list[Image]]:
        """By name; beside them there is always `host`."""
        return self._list(path(*V1, "images"), Image, limit)

    @operation
    def get_image(self, image: str) -> Steps[Image]:
        return self._get(path(*V1, "images", image), Image)

    @operation
    def delete_image(self, image: str) -> Steps[bool]:
        return self._agreed(self._remove(path(*V1, "images", image), Image))

    @operation
    def prune_images(self) -> Steps[Pruned]:
        """Remove every image that no sandbox and no snapshot is made of."""
        return self._change("POST", path(*V1, "images", "prune"), Pruned)

    @operation
    def snapshot_sandbox(self, sandbox: str, name: str | None = None) -> Steps[Snapshot]:
        """Keep its files as they are now; a running one stands still meanwhile."""
        return self._create(path(*V1, "sandboxes", sandbox, "snapshots"), Snapshot, name=name)

    @operation
    def list_snapshots(self, *, limit: int | None = None) -> Steps[list[Snapshot]]:
        return self._list(path(*V1, "snapshots"), Snapshot, limit)

    @operation
    def get_snapshot(self, snapshot: str) -> Steps[Snapshot]:
        return self._get(path(*V1, "snapshots", snapshot), Snapshot)

    @operation
    def delete_snapshot(self, snapshot: str) -> Steps[bool]:
        return self._agreed(self._remove(path(*V1, "snapshots", snapshot), Snapshot))
