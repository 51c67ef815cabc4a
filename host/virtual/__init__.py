"""Virtual boards: the unmodified firmware in an emulator, with its chip's peripherals."""
