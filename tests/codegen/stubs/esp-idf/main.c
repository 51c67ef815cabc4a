/* What ESP-IDF's start-up does at its end. */
#include "esp_partition.h"

int main(void) {
    app_main();
    return 1;
}
