"""The guided demo: a temporary control plane, the operator, and the examples."""
