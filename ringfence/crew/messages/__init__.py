"""Messages between agents, and between agents and people: stored, then delivered until acknowledged."""
