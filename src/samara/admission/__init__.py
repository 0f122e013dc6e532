"""Admission and conversion webhooks: the API server asks the vocabularies about a change before it stores it."""
