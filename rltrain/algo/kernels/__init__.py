"""Compiled counterparts of plain PyTorch code. A reader of the method may skip this folder."""
