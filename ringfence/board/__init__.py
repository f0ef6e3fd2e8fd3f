"""The board: projects, tasks, claims, WIP limits, dependencies, files and metrics."""
