"""Runs on the Hugging Face Hub, as run folders: mode=push and checkpoint=hf://…."""
