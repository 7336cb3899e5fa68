"""Environments of several agents: PettingZoo's, and Gymnasium's with Tuple spaces."""
