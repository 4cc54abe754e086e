"""`python -m rubricnb` is the `rubricnb` command."""

from .cli import main

main()
