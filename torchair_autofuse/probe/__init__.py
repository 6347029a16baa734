"""Small probes of what only hardware or CANN can confirm: one per entry of docs/hardware-assumptions.md."""
