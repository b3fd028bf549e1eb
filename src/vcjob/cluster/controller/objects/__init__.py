"""Creates, restores and deletes the pods and other objects of a Job, on behalf of the reconciler."""
