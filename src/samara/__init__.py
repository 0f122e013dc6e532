"""Samara keeps namespaced Kubernetes objects where they are needed."""

__version__ = "0.1.0"
