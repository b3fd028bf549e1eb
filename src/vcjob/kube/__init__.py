"""A thin asyncio client of the Kubernetes API.

It knows nothing of Jobs. One noun per module, nothing is imported before it is asked for:

- ``config``      where the cluster is and who we are: ``kubeconfig`` files or the pod's own account, ``proxy``
- ``auth``        credentials, kept fresh; ``exec_plugin`` asks a program for them; ``tls`` makes contexts of them
- ``wire``        one request, one answer: the only module that touches the HTTP library
- ``transport``   requests that arrive: retries that are safe, one flow control for all (``flow``)
- ``resources``   kinds and their URLs; ``objects`` what every object has; ``codec`` and ``lines`` their bytes
- ``client``      get, list, create, replace, patch, apply, delete, logs
- ``watch``       a list that stays true: snapshots and changes
- ``informer``    an indexed cache kept by a watch
- ``queue``       a de-duplicating work queue
- ``lease``       leader election
- ``errors``      what can go wrong
"""
