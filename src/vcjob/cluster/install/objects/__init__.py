"""The Kubernetes objects that an installation consists of. Pure: settings in, documents out.

- ``manifests``              all of them, in the order of application; the other modules make one group each
- ``crds``                   the CustomResourceDefinitions; ``structural`` converts the Job schema for them
- ``roles``                  the rights of the controller and of the users of a cluster
- ``webhook_configuration``  which requests the API server sends to the webhook
- ``workload``               the Deployment and everything that it needs to run
"""
