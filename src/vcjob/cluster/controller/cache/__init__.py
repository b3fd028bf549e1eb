"""What the controller knows about each Job, filled by the informers' handlers. Nothing here writes to the cluster."""
