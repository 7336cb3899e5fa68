"""Several learners: the processes of torchrun, each with environments and a buffer of its own."""
