"""What stands in for PyTorch's CUDA kernels."""
