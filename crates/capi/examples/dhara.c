/* Dhara, a flash translation layer, on a simulated SPI NAND or raw NAND, under power cuts. Dhara itself is not part of floatgate:
 *
 *   git clone https://github.com/dlbeer/dhara
 *   cc -shared -fPIC -I crates/capi/include -I dhara -o dhara.so crates/capi/examples/dhara.c dhara/dhara/{error,journal,map}.c
 *   floatgate powercut w25n01gv --lib ./dhara.so
 *
 * The functions dhara_nand_ are the adapter; what follows is a workload for `floatgate powercut`.
 */
#include <dhara/map.h>
#include <floatgate.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 16, SECTORS = 20, GC_RATIO = 4, PAGE_MAX = 16384 };

static fg_geometry geometry;
static fg_device *flash;
static struct dhara_nand nand;
static struct dhara_map map;
static uint8_t journal_page[PAGE_MAX];

static uint64_t page_address(dhara_page_t page) { return (uint64_t)page * geometry.write_bytes; }
static uint64_t block_address(dhara_block_t block) { return (uint64_t)block * geometry.erase_bytes; }

static int result(fg_status status, dhara_error_t *error) {
  if (status == FG_OK) return 0;
  dhara_set_error(error, status == FG_UNCORRECTABLE ? DHARA_E_ECC : DHARA_E_BAD_BLOCK);
  return -1;
}

int dhara_nand_is_bad(const struct dhara_nand *n, dhara_block_t block) {
  int32_t bad = 1;
  (void)n;
  return fg_mtd_is_bad(flash, block_address(block), &bad) != FG_OK || bad;
}

void dhara_nand_mark_bad(const struct dhara_nand *n, dhara_block_t block) {
  (void)n;
  fg_mtd_mark_bad(flash, block_address(block));
}

int dhara_nand_erase(const struct dhara_nand *n, dhara_block_t block, dhara_error_t *error) {
  (void)n;
  return result(fg_mtd_erase(flash, block_address(block), geometry.erase_bytes), error);
}

int dhara_nand_prog(const struct dhara_nand *n, dhara_page_t page, const uint8_t *data, dhara_error_t *error) {
  (void)n;
  return result(fg_mtd_write(flash, page_address(page), data, geometry.write_bytes), error);
}

int dhara_nand_is_free(const struct dhara_nand *n, dhara_page_t page) {
  static uint8_t bytes[PAGE_MAX];
  (void)n;
  if (fg_mtd_read(flash, page_address(page), bytes, geometry.write_bytes, NULL) != FG_OK) return 0;
  for (uint32_t at = 0; at < geometry.write_bytes; at++)
    if (bytes[at] != 0xFF) return 0;
  return 1;
}

int dhara_nand_read(const struct dhara_nand *n, dhara_page_t page, size_t offset, size_t length, uint8_t *data, dhara_error_t *error) {
  (void)n;
  return result(fg_mtd_read(flash, page_address(page) + offset, data, length, NULL), error);
}

int dhara_nand_copy(const struct dhara_nand *n, dhara_page_t from, dhara_page_t to, dhara_error_t *error) {
  static uint8_t bytes[PAGE_MAX];
  if (dhara_nand_read(n, from, 0, geometry.write_bytes, bytes, error) != 0) return -1;
  return dhara_nand_prog(n, to, bytes, error);
}

static uint8_t log2_of(uint32_t number) {
  uint8_t exponent = 0;
  while (number >>= 1) exponent++;
  return exponent;
}

static const char *failure(const char *what, dhara_error_t error) {
  static char text[100];
  snprintf(text, sizeof text, "%s: %s", what, dhara_strerror(error));
  return text;
}

static void configure(fg_device *device) {
  flash = device;
  fg_mtd_geometry(device, &geometry);
  nand.log2_page_size = log2_of(geometry.write_bytes);
  nand.log2_ppb = log2_of(geometry.erase_bytes / geometry.write_bytes);
  nand.num_blocks = BLOCKS;
  dhara_map_init(&map, &nand, journal_page, GC_RATIO);
}

const char *floatgate_test_recover(fg_device *device) {
  dhara_error_t error = DHARA_E_NONE;
  configure(device);
  /* An empty chip is no failure: it holds an empty map. */
  dhara_map_resume(&map, &error);
  return NULL;
}

const char *floatgate_test_step(fg_device *device, uint32_t number) {
  static uint8_t page[PAGE_MAX];
  const dhara_sector_t sector = number * 7 % SECTORS;
  dhara_error_t error = DHARA_E_NONE;
  char name[12];
  snprintf(name, sizeof name, "sector %u", (unsigned)sector);
  for (uint32_t at = 0; at < geometry.write_bytes; at++) page[at] = (uint8_t)(number + at * 13);
  /* The first bytes stand for the whole page, which the check compares. */
  fg_expect_write(device, name, page, 16);
  if (dhara_map_write(&map, sector, page, &error) != 0) return failure("dhara_map_write", error);
  /* Three of four writes are synchronised with the next one. */
  if (number % 4 == 3) {
    if (dhara_map_sync(&map, &error) != 0) return failure("dhara_map_sync", error);
    fg_expect_synced(device, NULL);
  }
  return NULL;
}

const char *floatgate_test_check(fg_device *device) {
  static uint8_t page[PAGE_MAX];
  for (dhara_sector_t sector = 0; sector < SECTORS; sector++) {
    dhara_error_t error = DHARA_E_NONE;
    dhara_page_t place;
    char name[12];
    snprintf(name, sizeof name, "sector %u", (unsigned)sector);
    if (dhara_map_find(&map, sector, &place, &error) != 0) {
      if (error == DHARA_E_NOT_FOUND) continue;
      return failure(name, error);
    }
    if (dhara_map_read(&map, sector, page, &error) != 0) return failure(name, error);
    for (uint32_t at = 16; at < geometry.write_bytes; at++)
      if (page[at] != (uint8_t)(page[0] + at * 13)) return "a sector holds parts of two values";
    fg_expect_found(device, name, page, 16);
  }
  return NULL;
}
