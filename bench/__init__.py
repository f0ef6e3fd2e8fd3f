"""Benchmarks: the hub's figures beside ours, in the same run on the same machine."""
