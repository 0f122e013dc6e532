"""Tools around Samara that the operator does not need: a local control plane, the demo and the benchmark."""
