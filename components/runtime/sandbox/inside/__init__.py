"""What runs inside the sandbox: the fork server, the confinement of a run, and the functions that run programs.

Standard library only, so that the server starts in milliseconds.
"""
