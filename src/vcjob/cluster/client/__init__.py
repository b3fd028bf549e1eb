"""The client side of a cluster, for the SDK: Jobs, their pods, events and logs.

- ``jobs``           the Jobs of one cluster; ``error_messages`` translates the API server's errors
- ``job_follower``   follows a Job until it ends; ``container_log`` one of its logs
- ``log_reader``     reads existing logs once; ``log_source`` is shared by both ways
- ``pod_view``       pods as the command line shows them; ``pod_exec`` runs a command in one
- ``loop_thread``    the thread on which all of this runs
"""
