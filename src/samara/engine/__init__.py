"""What Samara does: queue keys, plan them, send the writes, and tell people."""
