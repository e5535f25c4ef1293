"""What ``ncubble ablate`` measures, held against other routes, and the programs it was tried on."""
