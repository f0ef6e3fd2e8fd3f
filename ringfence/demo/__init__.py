"""A project with agents that pretend to work, for whoever wants to see a board move before they connect their own."""
