"""Questions that need no run: --help, --cfg, completion."""
