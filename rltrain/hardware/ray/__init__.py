"""Workers on a Ray cluster: those of ``hardware/process``, with messages in place of memory."""
