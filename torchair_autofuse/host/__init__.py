"""What runs without an NPU: TorchAir's loader and native stand-ins, the GE executor, kernel build and launch."""
