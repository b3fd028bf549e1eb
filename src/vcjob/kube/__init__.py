"""A thin asyncio client of the Kubernetes API.

It knows nothing of Jobs. One noun per module, nothing is imported before it is asked for:

- ``config``      where the cluster is and who we are: kubeconfig, in-cluster
- ``auth``        credentials, kept fresh; ``exec_plugin`` asks a program for them
- ``transport``   requests, retries, flow control (``flow``)
- ``resources``   kinds and their URLs
- ``client``      get, list, create, replace, patch, apply, delete, logs
- ``watch``       a list that stays true: snapshots and changes
- ``informer``    an indexed cache kept by a watch
- ``queue``       a de-duplicating work queue
- ``lease``       leader election
- ``errors``      what can go wrong
"""
