"""The region watch: which Python state a captured region reads and writes, and what becomes of it before a replay."""
