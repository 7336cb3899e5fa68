"""Compiled steps of networks without memory: layers, losses and their gradients."""
