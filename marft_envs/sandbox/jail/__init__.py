"""Runner of the sandbox and its modules, which run inside of each jail. Standard library only, Python 3.11.

The folder is copied into the Docker image, bound into the bubblewrap jail, and run in place by the Landlock backend.
The host uses `wire`, `landlock.abi`, `spawn.COMPILE`, `runtime_files`, `plan.DEVICES` and `python_start` from here.
"""
