"""Secret managers: how a store is opened, read and polled. One file per manager; `registry.py` lists the schemes."""
