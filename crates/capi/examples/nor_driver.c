/* A driver of SPI NORs, and seven broken ones, on a score card:
 *
 *   cc -shared -fPIC -I crates/capi/include -o nor_driver.so crates/capi/examples/nor_driver.c
 *   floatgate conformance w25q128jv w25q256jv --driver ./nor_driver.so
 *
 * -DNO_POLL does not wait for the end of erases; -DNO_RELEASE leaves the chip in 4-byte mode; -DIGNORE_LOCK takes a locked block for a written
 * one; -DWRONG_BLOCK erases the block of 64 KiB that a sector is in; -DPART_OF_BLOCK erases a sector of a block of 64 KiB; -DFIRST_BYTES programs
 * only 16 bytes; -DFOREIGN_COMMAND asks every chip for the status of a DataFlash. -DCLOCK_HZ=60000000 sets another clock.
 */
#include <floatgate.h>
#include <string.h>

enum {
  WRITE_ENABLE = 0x06,
  READ_STATUS = 0x05,
  READ_ID = 0x9F,
  READ = 0x03,
  PROGRAM = 0x02,
  ERASE_4K = 0x20,
  ERASE_64K = 0xD8,
  ENTER_4_BYTES = 0xB7,
  EXIT_4_BYTES = 0xE9,
  DATAFLASH_STATUS = 0xD7,
  BUSY = 0x01,
  LOCKED = 0x1C, /* block protection bits */
};

#ifndef CLOCK_HZ
#define CLOCK_HZ 25000000
#endif

static uint64_t size_bytes;

static void command(fg_device *chip, const uint8_t *sent, size_t length) { fg_spi_transfer(chip, 1, 0, sent, NULL, length); }

static void query(fg_device *chip, uint8_t opcode, uint8_t *received, size_t length) {
  fg_spi_transfer(chip, 1, FG_HOLD, &opcode, NULL, 1);
  fg_spi_transfer(chip, 1, 0, NULL, received, length);
}

/* Opcode and address, of three or four bytes; their number. */
static size_t header(uint8_t *bytes, uint8_t opcode, uint64_t address) {
  size_t length = 0;
  bytes[length++] = opcode;
  if (size_bytes > 1u << 24) bytes[length++] = (uint8_t)(address >> 24);
  bytes[length++] = (uint8_t)(address >> 16);
  bytes[length++] = (uint8_t)(address >> 8);
  bytes[length++] = (uint8_t)address;
  return length;
}

static uint8_t wait_until_ready(fg_device *chip) {
  uint8_t status;
  do query(chip, READ_STATUS, &status, 1);
  while (status & BUSY);
  return status;
}

static void write_enable(fg_device *chip) {
  const uint8_t opcode = WRITE_ENABLE;
  command(chip, &opcode, 1);
}

const char *floatgate_driver_probe(fg_device *chip, fg_geometry *geometry) {
  uint8_t id[3];
  fg_spi_clock(chip, CLOCK_HZ);
  query(chip, READ_ID, id, sizeof id);
  if (id[0] == 0x00 || id[0] == 0xFF) return "no chip answers";
  if (id[2] < 0x10 || id[2] > 0x20) return "the id has no size";
  /* From 64 MiB on many makers count on from 20h. */
  size_bytes = 1ull << (id[2] == 0x20 ? 26 : id[2]);
  if (size_bytes > 1u << 24) {
    const uint8_t opcode = ENTER_4_BYTES;
    write_enable(chip); /* some makers want it */
    command(chip, &opcode, 1);
  }
  geometry->size_bytes = size_bytes;
#ifdef PART_OF_BLOCK
  geometry->erase_bytes = 65536;
#else
  geometry->erase_bytes = 4096;
#endif
  geometry->write_bytes = 1;
#ifdef FOREIGN_COMMAND
  query(chip, DATAFLASH_STATUS, id, 1);
#endif
  return NULL;
}

const char *floatgate_driver_read(fg_device *chip, uint64_t address, uint8_t *bytes, size_t length) {
  uint8_t sent[5];
  fg_spi_transfer(chip, 1, FG_HOLD, sent, NULL, header(sent, READ, address));
  fg_spi_transfer(chip, 1, 0, NULL, bytes, length);
  return NULL;
}

/* A chip that could not program keeps its bytes. */
static const char *verify(fg_device *chip, uint64_t address, const uint8_t *bytes, size_t length) {
  uint8_t back[256];
  floatgate_driver_read(chip, address, back, length);
  return memcmp(back, bytes, length) == 0 ? NULL : "the bytes read back are others";
}

/* At most a page, and within one. */
const char *floatgate_driver_program(fg_device *chip, uint64_t address, const uint8_t *bytes, size_t length) {
  uint8_t sent[5 + 256];
  if (length > 256) return "more bytes than a page";
#ifdef FIRST_BYTES
  if (length > 16) length = 16;
#endif
  if (wait_until_ready(chip) & LOCKED) {
#ifdef IGNORE_LOCK
    return NULL;
#else
    return "blocks are locked";
#endif
  }
  const size_t begin = header(sent, PROGRAM, address);
  memcpy(sent + begin, bytes, length);
  write_enable(chip);
  command(chip, sent, begin + length);
  wait_until_ready(chip);
  return verify(chip, address, bytes, length);
}

const char *floatgate_driver_erase(fg_device *chip, uint64_t address) {
  uint8_t sent[5];
#ifdef WRONG_BLOCK
  const size_t length = header(sent, ERASE_64K, address);
#else
  const size_t length = header(sent, ERASE_4K, address);
#endif
  write_enable(chip);
  command(chip, sent, length);
#ifndef NO_POLL
  wait_until_ready(chip);
#endif
  return NULL;
}

const char *floatgate_driver_release(fg_device *chip) {
#ifndef NO_RELEASE
  const uint8_t opcode = EXIT_4_BYTES;
  if (size_bytes > 1u << 24) {
    write_enable(chip);
    command(chip, &opcode, 1);
  }
#endif
  (void)chip;
  return NULL;
}
