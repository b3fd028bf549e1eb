"""The controller: turns Job objects into pods and writes their status. The layers, from the top:

- ``controller``   one term of leadership: informers, queue, workers; ``reconcile`` one pass over one Job
- ``preparation``, ``admission``, ``pending``, ``orphans``   the parts of a reconcile
- ``schedulers``, ``account_trust``   whether Volcano runs here; ``status``   when and how a status is written
- ``objects``   pods and other objects; ``event_recorder``, ``pod_events``   events
- ``offload``   what may hold the event loop runs in threads
- ``cache``   what is known about each Job, filled by the informers; it makes no requests
- ``options``, ``telemetry``   used by all
"""
