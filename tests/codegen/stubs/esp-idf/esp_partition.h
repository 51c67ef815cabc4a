/* What the example uses of ESP-IDF's partitions: one of 64 sectors. */
#ifndef ESP_PARTITION_H
#define ESP_PARTITION_H

#include "../stub.h"

typedef int esp_err_t;
enum {
    ESP_OK = 0,
    ESP_FAIL = -1
};
typedef enum {
    ESP_PARTITION_TYPE_DATA = 1
} esp_partition_type_t;
typedef enum {
    ESP_PARTITION_SUBTYPE_ANY = 0xff
} esp_partition_subtype_t;
typedef struct {
    uint32_t size;
} esp_partition_t;

static inline const esp_partition_t *esp_partition_find_first(esp_partition_type_t type,
                                                              esp_partition_subtype_t subtype,
                                                              const char *label) {
    static const esp_partition_t only = {64 * 4096};
    return type == ESP_PARTITION_TYPE_DATA && subtype == ESP_PARTITION_SUBTYPE_ANY && label != NULL
               ? &only
               : NULL;
}

static inline esp_err_t esp_partition_read(const esp_partition_t *partition, size_t offset,
                                           void *to, size_t count) {
    if (offset + count > partition->size) {
        return ESP_FAIL;
    }
    memcpy(to, stub_flash() + offset, count);
    return ESP_OK;
}

static inline esp_err_t esp_partition_erase_range(const esp_partition_t *partition, size_t offset,
                                                  size_t count) {
    if (offset + count > partition->size) {
        return ESP_FAIL;
    }
    stub_erase(offset, count);
    return ESP_OK;
}

static inline esp_err_t esp_partition_write(const esp_partition_t *partition, size_t offset,
                                            const void *from, size_t count) {
    if (offset + count > partition->size) {
        return ESP_FAIL;
    }
    stub_program(offset, from, count);
    return ESP_OK;
}

void app_main(void);

#endif
