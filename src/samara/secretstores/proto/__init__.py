"""The messages of FishyKeys, generated from `fishykeys.proto` by `scripts/protos.py`."""
