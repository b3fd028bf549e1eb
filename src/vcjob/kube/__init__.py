"""A thin asyncio client of the Kubernetes API.

It knows nothing of Jobs. Its packages, from the top layer to the bottom, import nothing before it is needed:

- ``controller``  building blocks of controllers: ``watch`` (list and watch), ``informer`` (a cache),
  ``queue`` (a deduplicating work queue), ``lease`` (leader election)
- ``api``         ``client`` (the verbs), ``resources`` (kinds and their URLs), ``objects`` (common metadata),
  ``codec`` and ``lines`` (bytes)
- ``http``        ``transport`` (credentials, retries, flow control by ``window``) and two HTTP clients behind the
  protocol in ``base``: ``pooled`` (own connections) and ``aiohttp_client`` (through a proxy)
- ``config``      where the cluster is and who we are: ``kubeconfig`` files or the pod's service account, ``auth``,
  ``exec_plugin``, ``tls``, ``proxy``
- ``errors``, ``backoff``
"""
