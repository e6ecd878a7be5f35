"""`python -m askance_lab` is the `askance` command."""

from askance_lab.cli import main

if __name__ == "__main__":
    main()
