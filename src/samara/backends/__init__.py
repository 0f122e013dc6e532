"""Secret managers: one file each, one async method."""
