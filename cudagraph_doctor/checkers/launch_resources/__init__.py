"""CGD5xx, launch_resources: launches that ask for more than the device has."""

from cudagraph_doctor.checkers.launch_resources.checker import LaunchResources

__all__ = ["LaunchResources"]
