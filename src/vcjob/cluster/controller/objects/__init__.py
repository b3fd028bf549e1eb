"""Creates, restores and deletes the pods and other objects of a Job, on behalf of the reconciler.

`pod_control` carries out the steps of a decision on pods, `owned_objects` keeps everything else as the plan says.
What should exist is decided elsewhere. A refusal of the API server is returned as a pending reason; other API errors
are raised, and the Job is reconciled again.
"""
