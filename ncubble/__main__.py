"""``python -m ncubble``: the command line."""

from ncubble.cli.main import main

if __name__ == "__main__":
    main()
