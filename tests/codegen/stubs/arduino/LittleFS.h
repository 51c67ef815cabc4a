/* What the examples use of LittleFS on ESP32, ESP8266 and Raspberry Pi Pico. */
#ifndef LITTLEFS_H
#define LITTLEFS_H

#include "Arduino.h"

class File {
  public:
    explicit File(FILE *file = nullptr) : file_(file) {
    }
    explicit operator bool() const {
        return file_ != nullptr;
    }
    size_t read(uint8_t *to, size_t count) {
        return fread(to, 1, count, file_);
    }
    size_t write(const uint8_t *from, size_t count) {
        return fwrite(from, 1, count, file_);
    }
    void close() {
        fclose(file_);
        file_ = nullptr;
    }

  private:
    FILE *file_;
};

struct FileSystem {
    bool begin() {
        return true;
    }
    File open(const char *name, const char *mode) {
        return File(fopen(name + 1, mode));
    }
};

static FileSystem LittleFS;

#endif
