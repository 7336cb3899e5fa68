"""What was probably meant: names of other libraries, typos, whole commands."""
