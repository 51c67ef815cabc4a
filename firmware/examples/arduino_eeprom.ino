// SPDX-License-Identifier: Apache-2.0
// Keeps what was learnt in an EEPROM, or in what a core emulates as one: for a state of a few hundred
// bytes, as of biases or of a small last layer. Two slots take turns, so a power cut while one is
// written leaves the other. For larger states the sketch `Learn` of `generate --as arduino` has LittleFS.
//
// Yours: readSample, which feeds a sample and returns its label. EEPROM cores of ESP32 and RP2040 need
// EEPROM.begin(2 * MCT_SAVED_BYTES) before, and EEPROM.commit() behind keep().
#include <Arduino.h>
#include <EEPROM.h>

#include "mct_model.h"

int32_t readSample();

static int nextSlot = 0;

static bool loadSlot(int slot)
{
    uint8_t *saved = new uint8_t[MCT_SAVED_BYTES];
    for (int i = 0; i < static_cast<int>(MCT_SAVED_BYTES); i++) {
        saved[i] = EEPROM.read(slot * static_cast<int>(MCT_SAVED_BYTES) + i);
    }
    const bool isTaken = mct_state_load(saved, MCT_SAVED_BYTES) == MCT_OK;
    delete[] saved;
    return isTaken;
}

// Takes the newer of both slots; damaged ones, and those of another model, count as empty.
static bool recall()
{
    uint32_t newest = 0;
    int found = -1;
    for (int slot = 0; slot < 2; slot++) {
        if (loadSlot(slot) && (found < 0 || mct_position() >= newest)) {
            newest = mct_position();
            found = slot;
        }
    }
    if (found == 0) {
        loadSlot(0); // the other one may have been loaded since
    }
    nextSlot = found == 0 ? 1 : 0;
    return found >= 0;
}

// EEPROM.update writes only bytes that changed.
static void keep()
{
    for (uint32_t i = 0; i < MCT_SAVED_BYTES; i++) {
        uint8_t byte = 0;
        mct_state_read(i, 1, &byte);
        EEPROM.update(nextSlot * static_cast<int>(MCT_SAVED_BYTES) + static_cast<int>(i), byte);
    }
    nextSlot = 1 - nextSlot;
}

void setup()
{
    mct_reset(1);
    if (2 * MCT_SAVED_BYTES > static_cast<uint32_t>(EEPROM.length())) {
        for (;;) {
            delay(1000); // it has no room for two states: train less, or take a file
        }
    }
    recall();
}

void loop()
{
    mct_result result;
    const int32_t label = readSample();
    if (mct_train(label, MCT_RATE(0.03), &result) == MCT_OK && mct_position() % 20 == 0) {
        keep();
    }
}
