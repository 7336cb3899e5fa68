"""Where metrics go: console, JSON lines, wandb, learning curve."""
