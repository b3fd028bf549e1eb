"""When and how the status of a Job is written. Nothing else in the controller writes one.

The reconciler calls `writer` after every decision; `changes` says which differences matter, `throttle` how long the
others are batched. A status is always written before steps that cannot be undone.
"""
