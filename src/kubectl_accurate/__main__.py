"""Runs the plugin: `python -m kubectl_accurate`."""

from kubectl_accurate.program import main

main()
