"""Agents: who they are, what they can do, how far they may go alone, and whether they are well."""
