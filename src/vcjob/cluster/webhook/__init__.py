"""The admission webhook: the API server calls it for every Job, and it applies the checks of `vcjob validate`.

- ``server``        the HTTPS server; ``review`` answers one AdmissionReview (pure)
- ``queues``        the cluster's Queues, for the checks
- ``tls``           the certificate in its Secret, renewed; ``certificates`` creates them (pure)
"""
