/* What the examples use of Arduino's interface. */
#ifndef ARDUINO_H
#define ARDUINO_H

#include <cstdio>

#include "../stub.h"

enum {
    INPUT_PULLUP = 2,
    LOW = 0,
    HIGH = 1
};

static inline void pinMode(int, int) {
}
static inline int digitalRead(int) {
    return stub_pressed() ? LOW : HIGH;
}
static inline void delay(unsigned long) {
    stub_pause();
}
static inline unsigned long micros() {
    return 0;
}

struct SerialPort {
    void begin(unsigned long) {
    }
    int available() {
        return 0;
    }
    long parseInt() {
        return 0;
    }
    void print(const char *text) {
        std::printf("%s", text);
    }
    void print(char one) {
        std::printf("%c", one);
    }
    void print(int number) {
        std::printf("%d", number);
    }
    void print(unsigned number) {
        std::printf("%u", number);
    }
    void print(unsigned long number) {
        std::printf("%lu", number);
    }
    void print(double number) {
        std::printf("%.2f", number);
    }
    template <typename T> void println(T value) {
        print(value);
        std::printf("\n");
    }
};

static SerialPort Serial;

void setup();
void loop();

#endif
