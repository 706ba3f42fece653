/* A driver of a SPI NOR, as many microcontroller projects have one, on a simulated chip: id, write enable, page program, status, read.
 *
 * cc -std=c99 spi_flash.c -I../include -lfloatgate && ./a.out
 */
#include <floatgate.h>
#include <stdio.h>
#include <string.h>

/* The board's only function for SPI: here it asks floatgate. */
static fg_device *chip;

static void spi(const uint8_t *sent, size_t sent_length, uint8_t *received, size_t received_length) {
  fg_spi_transfer(chip, 1, FG_HOLD, sent, NULL, sent_length);
  fg_spi_transfer(chip, 1, 0, NULL, received, received_length);
}

static void wait_until_ready(void) {
  const uint8_t read_status = 0x05;
  uint8_t status;
  do {
    spi(&read_status, 1, &status, 1);
  } while (status & 1);
}

static void write_page(uint32_t address, const uint8_t *bytes, size_t length) {
  const uint8_t write_enable = 0x06;
  uint8_t command[4 + 256] = {0x02, (uint8_t)(address >> 16), (uint8_t)(address >> 8), (uint8_t)address};
  memcpy(command + 4, bytes, length);
  spi(&write_enable, 1, NULL, 0);
  spi(command, 4 + length, NULL, 0);
  wait_until_ready();
}

static void read_bytes(uint32_t address, uint8_t *bytes, size_t length) {
  const uint8_t command[4] = {0x03, (uint8_t)(address >> 16), (uint8_t)(address >> 8), (uint8_t)address};
  spi(command, 4, bytes, length);
}

int main(void) {
  char why[200];
  const uint8_t read_id = 0x9F, text[] = "flash";
  uint8_t id[3], back[sizeof text];
  if (fg_open("w25q128jv", NULL, 0, FG_PINS, &chip, why, sizeof why) != FG_OK) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  /* READ 03h is slower than the board's clock. Without this line fg_violation says so. */
  fg_spi_clock(chip, 25000000);
  spi(&read_id, 1, id, 3);
  write_page(0x1000, text, sizeof text);
  read_bytes(0x1000, back, sizeof back);
  printf("id %02x %02x %02x, read \"%s\" after %.1f us, %u violations\n", id[0], id[1], id[2], back, (double)fg_now(chip) / 1e3,
         (unsigned)fg_violation_count(chip));
  fg_close(chip);
  return strcmp((const char *)back, "flash") != 0;
}
