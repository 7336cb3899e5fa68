"""`make bench`: rltrain beside other libraries. A new measurement is an entry in ``cases.py``."""
