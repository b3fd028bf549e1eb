"""The local side of the SDK: starting jobs on this machine, and their handle. Used by `local_backend` only."""
