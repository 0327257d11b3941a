"""The nodes and edges of a captured graph, read from the driver or the simulated device."""
