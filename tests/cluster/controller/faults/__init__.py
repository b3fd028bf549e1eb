"""The controller when requests fail, processes are killed and nodes are lost."""
