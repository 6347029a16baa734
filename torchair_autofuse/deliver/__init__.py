"""How fused ops reach a machine with CANN: as a package built ahead of time, or just in time."""
