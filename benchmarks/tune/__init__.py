"""How near ``ncubble tune`` comes to the best of a whole grid, and at how many launches."""
