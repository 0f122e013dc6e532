"""The vocabularies: one file each, none knows another."""
