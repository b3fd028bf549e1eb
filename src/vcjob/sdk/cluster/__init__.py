"""The cluster side of the SDK: connection, handle and follower of jobs on a cluster. Used by `cluster_backend` only."""
