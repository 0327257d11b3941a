"""The folder that goes on the target's PYTHONPATH. Only `sitecustomize` may stand here: the target would see it."""
