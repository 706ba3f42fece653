/* Calls a second of the C interface on one core:
 *
 *   cc -O2 -o speed crates/capi/examples/speed.c $(pkg-config --cflags --libs floatgate)
 *   ./speed
 */
#include <floatgate.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PAGE = 2048, PAGES = 64 };

static fg_device *open_chip(const char *name) {
  char why[200];
  fg_device *chip;
  if (fg_open(name, NULL, 0, FG_PINS, &chip, why, sizeof why) != FG_OK) {
    fprintf(stderr, "%s: %s\n", name, why);
    return NULL;
  }
  fg_spi_clock(chip, 25000000);
  return chip;
}

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static void command(fg_device *chip, const uint8_t *sent, size_t length) { fg_spi_transfer(chip, 1, 0, sent, NULL, length); }

/* READ STATUS 05h of a SPI NOR: a call each. */
static double status_reads(fg_device *chip) {
  const double start = seconds();
  long count = 0;
  do {
    for (int at = 0; at < 100000; at++, count++) {
      uint8_t bytes[2] = {0x05, 0};
      fg_spi_transfer(chip, 1, 0, bytes, bytes, sizeof bytes);
    }
  } while (seconds() - start < 1);
  return (double)count / (seconds() - start);
}

/* READ FROM CACHE 03h of a SPI NAND after PAGE READ 13h: four calls a page. */
static double page_reads(fg_device *chip, int page_read_each_time) {
  static uint8_t bytes[PAGE];
  const double start = seconds();
  long count = 0;
  do {
    for (int at = 0; at < 1000; at++, count++) {
      const uint8_t load[] = {0x13, 0, 0, (uint8_t)(count % PAGES)}, read[] = {0x03, 0, 0, 0};
      if (page_read_each_time) {
        command(chip, load, sizeof load);
        fg_advance(chip, 100000);
      }
      fg_spi_transfer(chip, 1, FG_HOLD, read, NULL, sizeof read);
      fg_spi_transfer(chip, 1, 0, NULL, bytes, sizeof bytes);
    }
  } while (seconds() - start < 1);
  return (double)count / (seconds() - start);
}

/* Programs the first block with bytes that are no pattern. */
static void fill(fg_device *chip) {
  static uint8_t load[3 + PAGE] = {0x02, 0, 0};
  const uint8_t unlock[] = {0x1F, 0xA0, 0}, wren[] = {0x06};
  uint32_t chance = 1;
  command(chip, unlock, sizeof unlock);
  for (uint8_t page = 0; page < PAGES; page++) {
    const uint8_t execute[] = {0x10, 0, 0, page};
    for (size_t at = 3; at < sizeof load; at++) load[at] = (uint8_t)((chance = chance * 1664525 + 1013904223) >> 24);
    command(chip, wren, sizeof wren);
    command(chip, load, sizeof load);
    command(chip, execute, sizeof execute);
    fg_advance(chip, 5000000);
  }
}

int main(void) {
  fg_device *nor = open_chip("w25q128jv"), *nand = open_chip("w25n01gv");
  if (nor == NULL || nand == NULL) return 1;
  printf("status reads: %.1f million/s\n", status_reads(nor) / 1e6);
  printf("reads of an erased page of 2 KiB: %.2f million/s\n", page_reads(nand, 1) / 1e6);
  fill(nand);
  printf("reads of a written page of 2 KiB: %.2f million/s\n", page_reads(nand, 1) / 1e6);
  printf("reads of 2 KiB from the cache: %.2f million/s\n", page_reads(nand, 0) / 1e6);
  if (fg_violation_count(nor) + fg_violation_count(nand) > 0) return 1;
  fg_close(nor);
  fg_close(nand);
  return 0;
}
