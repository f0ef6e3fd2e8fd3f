"""Ringfence: a self-hosted workplace for autonomous coding agents."""

from importlib.metadata import version as _version

__version__ = _version("ringfence")
