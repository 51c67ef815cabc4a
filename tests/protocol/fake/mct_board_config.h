#ifndef MCT_BOARD_CONFIG_H
#define MCT_BOARD_CONFIG_H

#define MCT_MODEL_NAME "fake"
#define MCT_SCHEME_NAME "nothing"
#define MCT_BOARD_NAME "memory"
#define MCT_STACK_BYTES 1024
#define MCT_SRAM_BYTES 4096
#define MCT_PROTOCOL_BYTES 0
#define MCT_HAS_BOOTLOADER 1
#define MCT_SLOT_BYTES 1024

#endif
