"""Who asks: people with roles, agents, and the tokens that prove either."""
