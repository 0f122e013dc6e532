"""What the process shows over HTTP: health, readiness and metrics."""
