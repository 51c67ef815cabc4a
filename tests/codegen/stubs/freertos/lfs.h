/* Of littlefs what firmware/examples calls, by files of the host. */
#ifndef STUB_LFS_H
#define STUB_LFS_H

#include <stdint.h>
#include <stdio.h>

typedef int32_t lfs_ssize_t;
typedef uint32_t lfs_size_t;
typedef struct {
    int mounted;
} lfs_t;
typedef struct {
    FILE *file;
} lfs_file_t;

enum {
    LFS_O_RDONLY = 1,
    LFS_O_WRONLY = 2,
    LFS_O_CREAT = 0x100,
    LFS_O_TRUNC = 0x400
};

static inline int lfs_file_open(lfs_t *fs, lfs_file_t *file, const char *name, int flags) {
    (void)fs;
    file->file = fopen(name, flags == LFS_O_RDONLY ? "rb" : "wb");
    return file->file != NULL ? 0 : -2;
}

static inline lfs_ssize_t lfs_file_read(lfs_t *fs, lfs_file_t *file, void *to, lfs_size_t count) {
    (void)fs;
    return (lfs_ssize_t)fread(to, 1, count, file->file);
}

static inline lfs_ssize_t lfs_file_write(lfs_t *fs, lfs_file_t *file, const void *from,
                                         lfs_size_t count) {
    (void)fs;
    return (lfs_ssize_t)fwrite(from, 1, count, file->file);
}

static inline int lfs_file_close(lfs_t *fs, lfs_file_t *file) {
    (void)fs;
    return fclose(file->file);
}

static inline int lfs_rename(lfs_t *fs, const char *from, const char *to) {
    (void)fs;
    return rename(from, to);
}

#endif
