"""The cluster side of the SDK: connection, handle and follower of jobs on a cluster.

`cluster_backend` uses it, and nothing outside the SDK. Its calls block: each runs on the event loop of the
connection's thread. Errors of the API are raised as `BackendError`s with a hint.
"""
