/* SPIFFS on a simulated SPI NOR, under power cuts. SPIFFS itself is not part of floatgate:
 *
 *   git clone https://github.com/pellepl/spiffs
 *   cc -shared -fPIC -I crates/capi/include -I crates/capi/examples/spiffs -I spiffs/src -I spiffs/src/default \
 *     -o spiffs.so crates/capi/examples/spiffs.c spiffs/src/spiffs_*.c
 *   floatgate powercut w25q64jv --lib ./spiffs.so
 *
 * The three functions of `spiffs_config` are the adapter; what follows is a workload for `floatgate powercut`.
 */
#include <floatgate.h>
#include <spiffs.h>
#include <spiffs_nucleus.h>
#include <stdio.h>
#include <string.h>

enum { FILES = 3, SIZE = 64 << 10, BLOCK = 4096, PAGE = 256, SIZE_MAX_BYTES = 1200 };

static fg_device *flash;
static spiffs fs;
static u8_t work[2 * PAGE], descriptors[4 * 64], cache[8 * (PAGE + 64)];

static s32_t read_flash(u32_t address, u32_t size, u8_t *bytes) {
  return fg_mtd_read(flash, address, bytes, size, NULL) == FG_OK ? SPIFFS_OK : SPIFFS_ERR_INTERNAL;
}

static s32_t write_flash(u32_t address, u32_t size, u8_t *bytes) {
  return fg_mtd_write(flash, address, bytes, size) == FG_OK ? SPIFFS_OK : SPIFFS_ERR_INTERNAL;
}

static s32_t erase_flash(u32_t address, u32_t size) {
  return fg_mtd_erase(flash, address, size) == FG_OK ? SPIFFS_OK : SPIFFS_ERR_INTERNAL;
}

static s32_t mount(void) {
  spiffs_config config = {0};
  config.phys_size = SIZE;
  config.phys_erase_block = BLOCK;
  config.log_block_size = BLOCK;
  config.log_page_size = PAGE;
  config.hal_read_f = read_flash;
  config.hal_write_f = write_flash;
  config.hal_erase_f = erase_flash;
  return SPIFFS_mount(&fs, &config, work, descriptors, sizeof descriptors, cache, sizeof cache, NULL);
}

static const char *failure(const char *what) {
  static char text[80];
  snprintf(text, sizeof text, "%s: error %d of SPIFFS", what, (int)SPIFFS_errno(&fs));
  return text;
}

const char *floatgate_test_prepare(fg_device *device) {
  flash = device;
  /* SPIFFS wants to be configured, by a mount that fails, before it formats. */
  if (mount() == SPIFFS_OK) SPIFFS_unmount(&fs);
  return SPIFFS_format(&fs) == SPIFFS_OK ? NULL : failure("SPIFFS_format");
}

const char *floatgate_test_recover(fg_device *device) {
  flash = device;
  if (mount() != SPIFFS_OK) return failure("SPIFFS_mount");
  /* SPIFFS asks for its check after a loss of power. */
  return SPIFFS_check(&fs) == SPIFFS_OK ? NULL : failure("SPIFFS_check");
}

static size_t content(uint32_t number, uint8_t *bytes) {
  const size_t size = 1 + number * 397 % SIZE_MAX_BYTES;
  for (size_t at = 0; at < size; at++) bytes[at] = (uint8_t)(number * 31 + at);
  return size;
}

const char *floatgate_test_step(fg_device *device, uint32_t number) {
  uint8_t bytes[SIZE_MAX_BYTES + 1];
  char name[8];
  snprintf(name, sizeof name, "f%u", number % FILES);
  const size_t size = content(number, bytes);
  /* SPIFFS promises nothing for a file that is truncated: it is removed, then written anew. */
  fg_expect_write(device, name, NULL, 0);
  fg_expect_write(device, name, bytes, size);
  SPIFFS_remove(&fs, name);
  const spiffs_file file = SPIFFS_open(&fs, name, SPIFFS_CREAT | SPIFFS_TRUNC | SPIFFS_RDWR, 0);
  if (file < 0) return failure("SPIFFS_open");
  if (SPIFFS_write(&fs, file, bytes, (s32_t)size) < 0) return failure("SPIFFS_write");
  if (SPIFFS_close(&fs, file) < 0) return failure("SPIFFS_close");
  fg_expect_synced(device, name);
  return NULL;
}

const char *floatgate_test_check(fg_device *device) {
  static uint8_t bytes[2 * SIZE_MAX_BYTES];
  for (uint32_t number = 0; number < FILES; number++) {
    char name[8];
    snprintf(name, sizeof name, "f%u", number);
    const spiffs_file file = SPIFFS_open(&fs, name, SPIFFS_RDONLY, 0);
    if (file < 0) continue;
    const s32_t size = SPIFFS_read(&fs, file, bytes, sizeof bytes);
    SPIFFS_close(&fs, file);
    if (size > 0) fg_expect_found(device, name, bytes, (size_t)size);
  }
  return NULL;
}
