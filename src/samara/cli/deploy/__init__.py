"""The objects of an installation in a cluster, and their removal."""
