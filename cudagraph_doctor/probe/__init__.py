"""The recorder that runs inside the target process.

Everything below this folder imports the standard library, `cudagraph_doctor._wire` and itself, nothing else: the
target's interpreter may be another one than the tool's, with none of the tool's packages. Hooks get the modules they
patch as an argument, after the target has imported them. `typing` and `dataclasses` are left out on purpose: they cost
the target 10 ms of start-up.
"""
