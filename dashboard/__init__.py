"""How it is shown: figures, pages, callbacks."""
