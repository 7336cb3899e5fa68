"""`make bench`: compares rltrain with other libraries. Add measurements in ``cases.py``."""
