"""The local side of the SDK: starting jobs on this machine, and their handle.

`local_backend` uses it, and nothing outside the SDK. It reads and writes the job store, and asks a job's supervisor
through it; the ranks themselves are processes of the supervisor.
"""
