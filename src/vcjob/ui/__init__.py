"""The web UI: a small server on this machine for the browser of the person who started it.

It calls the SDK as any Python program would and knows neither backend. Nothing here is loaded unless `vcjob ui`
or `Handle.show()` is called.
"""
