"""Whether fused graphs are right: ``verify`` compares, ``bisect`` finds the fused op that is wrong."""
