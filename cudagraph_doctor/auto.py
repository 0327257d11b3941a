"""`import cudagraph_doctor.auto` records this process, without the command line.

For places where nobody types `cudagraph-doctor run`: Docker, Ray, Slurm, a notebook. The trace goes to the folder named
by `CUDAGRAPH_DOCTOR_TRACE`, or to `cudagraph-doctor-trace` in the current one. Import it before torch, so that nothing
is missed. In a process that is recorded already, it does nothing.
"""

from cudagraph_doctor.probe import bootstrap

bootstrap.start_automatically()
