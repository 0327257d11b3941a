"""Reporters: functions of a report and a text stream, one format a file. None of them decides anything."""
