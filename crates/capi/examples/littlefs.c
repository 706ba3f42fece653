/* littlefs on a simulated SPI NOR or SPI NAND, under power cuts. littlefs itself is not part of floatgate:
 *
 *   git clone --branch v2.11.2 https://github.com/littlefs-project/littlefs
 *   cc -shared -fPIC -I crates/capi/include -I littlefs -o littlefs.so crates/capi/examples/littlefs.c littlefs/lfs.c littlefs/lfs_util.c
 *   floatgate powercut w25q64jv --lib ./littlefs.so
 *
 * The four functions of `struct lfs_config` are the adapter; what follows is a workload for `floatgate powercut`.
 */
#include <floatgate.h>
#include <lfs.h>
#include <stdio.h>
#include <string.h>

enum { FILES = 3, BLOCKS = 32, SIZE_MAX_BYTES = 1200 };

static fg_geometry geometry;
static struct lfs_config config;
static lfs_t lfs;
static int is_mounted;

static int result(fg_status status) {
  switch (status) {
    case FG_OK: return LFS_ERR_OK;
    /* A block that fails is left; littlefs writes its data to another one. */
    case FG_FAILED: case FG_UNCORRECTABLE: case FG_BAD_BLOCK: return LFS_ERR_CORRUPT;
    default: return LFS_ERR_IO;
  }
}

static uint64_t address(const struct lfs_config *c, lfs_block_t block, lfs_off_t offset) { return (uint64_t)block * c->block_size + offset; }

static int read_block(const struct lfs_config *c, lfs_block_t block, lfs_off_t offset, void *buffer, lfs_size_t size) {
  return result(fg_mtd_read((fg_device *)c->context, address(c, block, offset), (uint8_t *)buffer, size, NULL));
}

static int program_block(const struct lfs_config *c, lfs_block_t block, lfs_off_t offset, const void *buffer, lfs_size_t size) {
  return result(fg_mtd_write((fg_device *)c->context, address(c, block, offset), (const uint8_t *)buffer, size));
}

static int erase_block(const struct lfs_config *c, lfs_block_t block) {
  return result(fg_mtd_erase((fg_device *)c->context, address(c, block, 0), c->block_size));
}

static int sync_device(const struct lfs_config *c) {
  (void)c;
  return LFS_ERR_OK;
}

static void configure(fg_device *device) {
  fg_mtd_geometry(device, &geometry);
  /* A NOR is written in pieces of 16 bytes, a NAND in pages. */
  const lfs_size_t unit = geometry.write_bytes == 1 ? 16 : geometry.write_bytes;
  config = (struct lfs_config){.context = device,
                               .read = read_block,
                               .prog = program_block,
                               .erase = erase_block,
                               .sync = sync_device,
                               .read_size = 16,
                               .prog_size = unit,
                               .block_size = geometry.erase_bytes,
                               .block_count = BLOCKS,
                               .block_cycles = 100,
                               .cache_size = unit < 256 ? 256 : unit,
                               .lookahead_size = 16};
}

static const char *failure(const char *what, int error) {
  static char text[80];
  snprintf(text, sizeof text, "%s: error %d of littlefs", what, error);
  return text;
}

const char *floatgate_test_prepare(fg_device *device) {
  configure(device);
  const int error = lfs_format(&lfs, &config);
  return error ? failure("lfs_format", error) : NULL;
}

const char *floatgate_test_recover(fg_device *device) {
  configure(device);
  const int error = lfs_mount(&lfs, &config);
  is_mounted = error == 0;
  return error ? failure("lfs_mount", error) : NULL;
}

/* Content of a file, which follows from the number of the step. */
static size_t content(uint32_t number, uint8_t *bytes) {
  const size_t size = 1 + number * 397 % SIZE_MAX_BYTES;
  for (size_t at = 0; at < size; at++) bytes[at] = (uint8_t)(number * 31 + at);
  return size;
}

const char *floatgate_test_step(fg_device *device, uint32_t number) {
  uint8_t bytes[SIZE_MAX_BYTES + 1];
  char name[8];
  lfs_file_t file;
  snprintf(name, sizeof name, "f%u", number % FILES);
  if (number % 7 == 6) {
    fg_expect_write(device, name, NULL, 0);
    const int error = lfs_remove(&lfs, name);
    if (error && error != LFS_ERR_NOENT) return failure("lfs_remove", error);
    fg_expect_synced(device, name);
    return NULL;
  }
  const size_t size = content(number, bytes);
  fg_expect_write(device, name, bytes, size);
  int error = lfs_file_open(&lfs, &file, name, LFS_O_WRONLY | LFS_O_CREAT | LFS_O_TRUNC);
  if (error) return failure("lfs_file_open", error);
  /* A file is on flash when it is closed; until then the old one is there, or one that was just created. */
  const lfs_ssize_t written = lfs_file_write(&lfs, &file, bytes, (lfs_size_t)size);
  error = lfs_file_close(&lfs, &file);
  if (written < 0 || error) return failure("lfs_file_write", written < 0 ? (int)written : error);
  fg_expect_synced(device, name);
  return NULL;
}

const char *floatgate_test_check(fg_device *device) {
  static uint8_t bytes[2 * SIZE_MAX_BYTES];
  if (!is_mounted) return "not mounted";
  for (uint32_t number = 0; number < FILES; number++) {
    char name[8];
    lfs_file_t file;
    snprintf(name, sizeof name, "f%u", number);
    int error = lfs_file_open(&lfs, &file, name, LFS_O_RDONLY);
    if (error == LFS_ERR_NOENT) continue;
    if (error) return failure(name, error);
    const lfs_ssize_t size = lfs_file_read(&lfs, &file, bytes, sizeof bytes);
    error = lfs_file_close(&lfs, &file);
    if (size < 0 || error) return failure(name, size < 0 ? (int)size : error);
    /* Opening creates an empty file before its content is there. */
    if (size > 0) fg_expect_found(device, name, bytes, (size_t)size);
  }
  return NULL;
}
