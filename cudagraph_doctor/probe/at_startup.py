"""What `cudagraph_doctor.pth` imports while Python starts, where `CUDAGRAPH_DOCTOR_TRACE` is set.

The file lies at the top of site-packages, so that the variable alone records every Python of that environment. Under
the launcher it does nothing: the door, `sitecustomize`, comes right after it and starts the recorder.
"""

import os
import sys

from cudagraph_doctor._wire import ENV_CONFIG

if sys.implementation.name == "cpython" and ENV_CONFIG not in os.environ:
    from cudagraph_doctor.probe import bootstrap

    bootstrap.start_from_environment()
    bootstrap.after_site()
