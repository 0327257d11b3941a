"""`python -m cudagraph_doctor` is the command `cudagraph-doctor`."""

import sys

from cudagraph_doctor.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
