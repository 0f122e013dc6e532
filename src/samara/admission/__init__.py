"""Admission and conversion webhooks: the API server asks the dialects about a change before it stores it."""
