"""The one error that building or driving the local control plane raises."""


class DevclusterError(Exception):
    """Its message says in one line what failed and what the reader can do about it."""
