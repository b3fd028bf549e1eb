"""The local backend compared with a real kubelet: the same Jobs on both, and what can be observed of them.

corpus       the Jobs: small busybox scripts that print what they see
observation  what is compared, and how differences are named
local_runs   runs the corpus as processes of this machine
cluster_runs runs it on the testbed's node
known        the differences that docs/compatibility.md lists
"""
