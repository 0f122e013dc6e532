"""Reads and computes the state of a cluster for several commands. The commands print it."""
