"""Resident runner of the sandbox and the modules that it needs. Standard library only, Python 3.11.

The folder is copied into the Docker image, bound into the bubblewrap jail, and run in place by the Landlock
backend. The host uses `wire`, `landlock.abi` and `native.COMPILE` from here. `plan` holds the limits of a program.
"""
