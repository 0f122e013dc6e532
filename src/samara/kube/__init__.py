"""The only code that speaks to the API server."""
