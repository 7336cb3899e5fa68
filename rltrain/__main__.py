"""``python -m rltrain`` is the command ``rltrain``."""

from rltrain.main import main

if __name__ == "__main__":
    main()
