"""Secret managers: one file each, one async method; `open.py` chooses among them."""
