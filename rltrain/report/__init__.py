"""Reports: statistics over runs, figures, tables, and the page that shows them.

``statistics.py`` is NumPy only. A reader of another library's results is one file in ``readers/``.
"""
