"""The engine: queues keys, plans them, sends the writes, and reports the results."""
