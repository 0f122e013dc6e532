"""The guided demo: a control plane of its own, the operator, and the examples."""
