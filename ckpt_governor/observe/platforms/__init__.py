"""The announcements of clouds and batch systems, one module each; ``registry.py`` knows them all."""
