"""What the controller knows about each Job: `JobCache` with one `JobState` per Job.

The informers' handlers fill it, the reconciler reads it and adds what it has done. Nothing here writes to the cluster
or decides anything. All of it runs on the controller's event loop, so nothing is locked.
"""
