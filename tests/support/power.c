/* A model of a disk, to be preloaded: it records what each fsync and fdatasync made durable.
 *
 * Of a file below POWER_ROOT that is its content, of a directory its entries. Each record is a file
 * "TIME-KEY" in POWER_DISK: CLOCK_MONOTONIC in ns before the call returns, and the inode with its
 * time of birth ("root" for POWER_ROOT itself). What no record has does not survive a power cut.
 * Without POWER_DISK nothing is recorded, as by a disk that ignores the calls.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KEY 64

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char *what) {
    perror(what);
    _exit(70); /* a record that is missing would look like a fault of the program */
}

/* Write the key of a file, and return its mode, 0 if it was removed. */
static int identify(int directory, const char *name, int flags, char *key) {
    struct statx found;
    if (statx(directory, name, flags | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &found))
        return 0;
    snprintf(key, KEY, "%llx.%llx.%x", (unsigned long long)found.stx_ino,
             (unsigned long long)found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
    return found.stx_mode;
}

static void copy_content(int from, FILE *to) {
    char block[1 << 16];
    ssize_t count;
    off_t at = 0;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", from);
    int again = open(path, O_RDONLY); /* the program's own may be for writing only */
    if (again < 0) fail(path);
    for (; (count = pread(again, block, sizeof block, at)) > 0; at += count)
        if (fwrite(block, 1, count, to) != (size_t)count) fail("power: write");
    if (count < 0) fail("power: read");
    close(again);
}

/* One line for each entry: d or f, the key, the name. */
static void copy_entries(int from, FILE *to) {
    char key[KEY];
    struct dirent *entry;
    int again = openat(from, ".", O_RDONLY | O_DIRECTORY);
    DIR *listing = fdopendir(again);
    if (!listing) fail("power: directory");
    while ((entry = readdir(listing))) {
        int mode = strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")
                       ? identify(again, entry->d_name, 0, key) : 0;
        if (mode) fprintf(to, "%c %s %s\n", S_ISDIR(mode) ? 'd' : 'f', key, entry->d_name);
    }
    closedir(listing);
}

static void record(int fd) {
    const char *root = getenv("POWER_ROOT"), *disk = getenv("POWER_DISK");
    char link[64], path[PATH_MAX], key[KEY], fresh[PATH_MAX], kept[2 * PATH_MAX];
    struct timespec now;
    if (!root || !disk) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    size_t above = strlen(root);
    if (length < 0) return;
    path[length] = 0;
    if (strncmp(path, root, above) || (path[above] && path[above] != '/')) return;
    int mode = identify(fd, "", AT_EMPTY_PATH, key);
    pthread_mutex_lock(&one_at_a_time);
    snprintf(fresh, sizeof fresh, "%s/.fresh-%d", disk, getpid());
    FILE *file = fopen(fresh, "w");
    if (!file) fail(fresh);
    S_ISDIR(mode) ? copy_entries(fd, file) : copy_content(fd, file);
    if (fclose(file)) fail(fresh);
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(kept, sizeof kept, "%s/%020lld-%s", disk,
             now.tv_sec * 1000000000LL + now.tv_nsec, path[above] ? key : "root");
    if (rename(fresh, kept)) fail(kept);
    pthread_mutex_unlock(&one_at_a_time);
}

int fsync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync"), failed = real(fd);
    if (!failed) record(fd);
    return failed;
}

int fdatasync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync"), failed = real(fd);
    if (!failed) record(fd);
    return failed;
}
