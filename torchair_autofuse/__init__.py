"""Fusion of small vector ops in TorchAir's GE graphs into generated Ascend C kernels."""
