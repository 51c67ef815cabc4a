"""The C sources that generated projects are made of, as package data of `mcutrain_firmware`."""
