"""Proposals: what an advisory agent wants to do, waiting for a person."""
