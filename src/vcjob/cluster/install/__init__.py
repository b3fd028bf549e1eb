"""Installs the controller in a cluster, checks it there, and removes it.

- ``commands``   entry points for the CLI; ``settings`` what can be chosen
- ``objects``    everything that an installation consists of
- ``apply``      installs and upgrades what ``intended`` wants, after ``conflicts`` found nothing against it
- ``remove``     uninstalls; ``ownership`` knows what belongs to an installation, and whether Helm manages it
- ``doctor``     checks what a cluster can run; ``crd_check``, ``probe``, ``rollout`` and ``volcano`` are its parts
- ``waiting``    bounded waits with progress
"""
