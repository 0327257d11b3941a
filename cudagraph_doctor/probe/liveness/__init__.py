"""What becomes of the memory that captured work points at."""
