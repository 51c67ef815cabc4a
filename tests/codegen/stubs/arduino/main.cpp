/* What Arduino's build adds to a sketch. */
#include "Arduino.h"
#include SKETCH

int main()
{
    setup();
    for (;;) {
        loop();
    }
}
