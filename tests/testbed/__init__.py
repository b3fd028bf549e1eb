"""A real Kubernetes (and a real Volcano) from package registries, for tests, for the race, and by hand.

In a test (the fixtures come from ``tests/testbed/fixtures.py``, a pytest plugin; mark such tests ``cluster``)::

    pytestmark = pytest.mark.cluster

    def test_something(api_server, namespace):
        api_server.kubeconfig          # a kubeconfig file of an administrator; the server is reachable as it stands
        api_server.identity("alice")   # a kubeconfig for any other user (and groups), with no rights of its own
        api_server.api                 # a tiny synchronous client: get, create, patch, delete, wait
        namespace                      # the name of a fresh namespace, deleted after the test

``node`` (a real kubelet), ``dns`` (CoreDNS), ``fakes`` (``fakes(100)`` adds a hundred pretended nodes) and ``volcano``
add to that same cluster when a test asks for them. ``fresh_cluster`` gives a cluster that a test may break.
``cluster.host_address`` is where pods and the API server find a server that the test process itself runs.

By hand: ``python -m tests.testbed up|down|status|build`` (see ``docs/testbed.md``).
As a library: ``with Cluster.start() as cluster: ...`` from ``tests.testbed.cluster``.

Everything of one testbed lives in a pid, mount and network namespace of its own whose first process dies with its owner,
so the kernel itself takes down every process, mount, bridge and packet rule, also after a kill -9.
"""
