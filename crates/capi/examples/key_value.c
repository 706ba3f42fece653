/* A key-value store in two eraseblocks, under power cuts:
 *
 *   cc -shared -fPIC -I crates/capi/include -o key_value.so crates/capi/examples/key_value.c
 *   floatgate powercut w25q128jv --lib ./key_value.so --mode exhaustive
 *
 * A block begins with a header of four bytes (magic, generation) and holds records in slots of 64 bytes. The last good record of a key counts.
 * When a block is full, the last values go to the other one, whose header is written at the end: it is valid from then on.
 * -DFORGET_SYNC leaves out what must be on flash before the header is.
 */
#include <floatgate.h>
#include <stdio.h>
#include <string.h>

enum { KEYS = 2, SLOT = 64, VALUE = 16, SLOTS_MAX = 4, MAGIC = 0x4B };

struct record {
  uint8_t state; /* WRITTEN; erased slots have FFh */
  uint8_t key;
  uint8_t value[VALUE];
  uint32_t sum;
};
enum { WRITTEN = 0x5A };

static fg_geometry geometry;
static uint32_t block;      /* the valid block */
static uint32_t generation; /* of the valid block */
static uint32_t next_slot;
static struct record last[KEYS]; /* last record of each key */

static uint32_t sum(const struct record *record) {
  const uint8_t *bytes = (const uint8_t *)record;
  uint32_t hash = 2166136261u;
  for (size_t at = 0; at < offsetof(struct record, sum); at++) hash = (hash ^ bytes[at]) * 16777619u;
  return hash;
}

static uint64_t slot_address(uint32_t of, uint32_t slot) { return (uint64_t)of * geometry.erase_bytes + (uint64_t)(slot + 1) * SLOT; }

static int write_record(fg_device *device, uint32_t to, uint32_t slot, const struct record *record) {
  return fg_mtd_write(device, slot_address(to, slot), (const uint8_t *)record, sizeof *record);
}

static int write_header(fg_device *device, uint32_t to, uint32_t number) {
  const uint8_t header[4] = {MAGIC, (uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(MAGIC ^ number ^ (number >> 8))};
  return fg_mtd_write(device, (uint64_t)to * geometry.erase_bytes, header, sizeof header);
}

/* Generation of a block; 0 where its header is not valid. */
static uint32_t read_header(fg_device *device, uint32_t of) {
  uint8_t header[4];
  if (fg_mtd_read(device, (uint64_t)of * geometry.erase_bytes, header, sizeof header, NULL) != FG_OK) return 0;
  if (header[0] != MAGIC || header[3] != (uint8_t)(header[0] ^ header[1] ^ header[2])) return 0;
  return header[1] | (uint32_t)header[2] << 8;
}

static int is_erased(const struct record *record) {
  const uint8_t *bytes = (const uint8_t *)record;
  for (size_t at = 0; at < sizeof *record; at++)
    if (bytes[at] != 0xFF) return 0;
  return 1;
}

/* Copies the last values into the other block. */
static int compact(fg_device *device) {
  const uint32_t to = 1 - block;
  int status = fg_mtd_erase(device, (uint64_t)to * geometry.erase_bytes, geometry.erase_bytes);
#ifdef FORGET_SYNC
  if (status == FG_OK) status = write_header(device, to, generation + 1);
#endif
  next_slot = 0;
  for (uint32_t key = 0; key < KEYS && status == FG_OK; key++)
    if (last[key].state == WRITTEN) status = write_record(device, to, next_slot++, &last[key]);
#ifndef FORGET_SYNC
  if (status == FG_OK) status = write_header(device, to, generation + 1);
#endif
  block = to;
  generation++;
  return status;
}

static int put(fg_device *device, const struct record *record) {
  if (next_slot == SLOTS_MAX) {
    const int status = compact(device);
    if (status != FG_OK) return status;
  }
  last[record->key] = *record;
  return write_record(device, block, next_slot++, record);
}

const char *floatgate_test_prepare(fg_device *device) {
  fg_mtd_geometry(device, &geometry);
  return write_header(device, 0, 1) == FG_OK ? NULL : fg_message(device);
}

const char *floatgate_test_recover(fg_device *device) {
  fg_mtd_geometry(device, &geometry);
  const uint32_t first = read_header(device, 0), second = read_header(device, 1);
  if (first == 0 && second == 0) return "no block has a valid header";
  block = second > first;
  generation = block ? second : first;
  for (next_slot = 0; next_slot < SLOTS_MAX; next_slot++) {
    struct record record;
    if (fg_mtd_read(device, slot_address(block, next_slot), (uint8_t *)&record, sizeof record, NULL) != FG_OK) return fg_message(device);
    if (is_erased(&record)) break;
    if (record.state == WRITTEN && record.key < KEYS && record.sum == sum(&record)) last[record.key] = record;
  }
  return NULL;
}

const char *floatgate_test_step(fg_device *device, uint32_t number) {
  struct record record = {.state = WRITTEN, .key = (uint8_t)(number % KEYS)};
  char name[8];
  snprintf(name, sizeof name, "k%u", record.key);
  snprintf((char *)record.value, sizeof record.value, "value %u", number);
  record.sum = sum(&record);
  fg_expect_write(device, name, record.value, sizeof record.value);
  if (put(device, &record) != FG_OK) return fg_message(device);
  fg_expect_synced(device, name);
  return NULL;
}

const char *floatgate_test_check(fg_device *device) {
  for (uint32_t key = 0; key < KEYS; key++) {
    char name[8];
    snprintf(name, sizeof name, "k%u", key);
    if (last[key].state == WRITTEN) fg_expect_found(device, name, last[key].value, sizeof last[key].value);
  }
  return NULL;
}
