"""Admission and conversion: the dialects' own functions, asked by the API server before a change is stored."""
