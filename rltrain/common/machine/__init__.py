"""Memory and processes of this computer."""
