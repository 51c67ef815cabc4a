/* An EEPROM in a file of the host. */
#ifndef STUB_EEPROM_H
#define STUB_EEPROM_H

#include <cstdint>
#include <cstdio>

class Eeprom {
  public:
    Eeprom() {
        for (int i = 0; i < length(); i++) {
            bytes[i] = 0xff;
        }
        if (FILE *file = std::fopen("eeprom.bin", "rb")) {
            (void)!std::fread(bytes, 1, sizeof bytes, file);
            std::fclose(file);
        }
    }
    int length() {
        return 4096;
    }
    uint8_t read(int at) {
        return bytes[at];
    }
    void update(int at, uint8_t byte) {
        bytes[at] = byte;
    }
    void store() {
        FILE *file = std::fopen("eeprom.bin", "wb");
        std::fwrite(bytes, 1, sizeof bytes, file);
        std::fclose(file);
    }

  private:
    uint8_t bytes[4096];
};

static Eeprom EEPROM;

#endif
