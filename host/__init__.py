"""Flashing, streaming and virtual boards; installed as `mcutrain_host`, independent of mcutrain."""
