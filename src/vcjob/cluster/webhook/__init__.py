"""The admission webhook: `validate`'s own checks, asked by the API server.

- ``review``   one AdmissionReview in, one out; pure
- ``server``   the TLS server around it
"""
