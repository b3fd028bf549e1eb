"""Jobs written for the user: from a script, a function, overrides, and Kubeflow's objects."""
