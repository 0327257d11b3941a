"""Checkers: pure functions of a session, one folder a hundred-block of the rule catalogue.

`code` (the user's source as text) and `invalidation` (what broke a capture) are shared by them and find nothing.
"""
