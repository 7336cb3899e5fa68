"""Compiled arithmetic that all kernels share: matrix products and activations."""
