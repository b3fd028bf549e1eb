"""Putting the controller into a cluster, looking after it there, and taking it out again.

- ``settings``    what can be chosen
- ``structural``  our Job schema in the form that a CustomResourceDefinition wants
- ``crds``        the kinds; ``served`` judges those that somebody else made
- ``roles``       what the controller may do; ``workload`` how it runs; ``hooks`` how the API server asks it
- ``manifests``   all of it, in the order of application
- ``apply``       installs and upgrades; ``remove`` uninstalls; ``volcano`` looks who else is there
- ``doctor``      says what a cluster can run and what is missing
"""
