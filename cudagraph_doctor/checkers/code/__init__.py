"""The user's recorded source text: which expression stands at a position, and what it looks like changed.

The text is parsed, never imported and never run.
"""
