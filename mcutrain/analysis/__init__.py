"""Contribution analysis: what is worth training, by training it or by gradients."""
