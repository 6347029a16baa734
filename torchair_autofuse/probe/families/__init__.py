"""The kernels of the probes, one module per family of assumptions."""
