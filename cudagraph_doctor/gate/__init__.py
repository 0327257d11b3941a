"""What a merge is stopped by: configuration, suppressions, baselines, and how graphs changed.

Everything here is a function of a report, of sessions and of the user's files; it runs on any machine.
"""
