"""The client, watches and logs on a real API server and etcd."""
