"""cuda-bindings on the simulated device: the runtime and driver calls that inference scripts make around graphs."""
