"""The published update schemes (TOML), as package data of `mcutrain_schemes`."""
