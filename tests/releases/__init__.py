"""What each released version has written, kept: later ones have to open it, read it, and go on with it.

`python -m tests.releases keep 1.0` writes the files of a release, once. See docs/releasing.md.
"""
