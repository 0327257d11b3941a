"""What this machine has, asked without creating a CUDA context and without importing torch: for `env` and `run`."""
