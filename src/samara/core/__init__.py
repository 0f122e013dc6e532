"""What Samara decides: pure functions over values, without I/O, clock or log."""
