"""The C sources of the native probe, and how they are built (docs/native-probe.md). Not imported to record."""
