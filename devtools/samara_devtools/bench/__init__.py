"""Speed and memory of a controller on a real API server, beside a bare client on the same server."""
