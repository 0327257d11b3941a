"""CGD1xx, capture_status: what broke a capture, or slipped past it. A file a rule, its text on top."""

from cudagraph_doctor.checkers.capture_status.checker import CaptureStatus

__all__ = ["CaptureStatus"]
