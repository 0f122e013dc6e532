"""The HTTP endpoints of the process: health, readiness and metrics."""
