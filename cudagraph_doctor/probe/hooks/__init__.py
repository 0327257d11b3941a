"""The hooks, one patched API a file. The interface is in `cudagraph_doctor.probe.context`."""
