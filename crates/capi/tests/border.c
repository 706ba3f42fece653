/* Every function of floatgate.h, as it is meant and as it is not. */
#define _POSIX_C_SOURCE 200809L
#include <floatgate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int checks;

#define CHECK(condition)                                                  \
  do {                                                                    \
    checks++;                                                             \
    if (!(condition)) {                                                   \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);     \
      exit(1);                                                            \
    }                                                                     \
  } while (0)
#define OK(call) CHECK((call) == FG_OK)

static fg_device *open_device(const char *target, int32_t level) {
  char why[300] = "";
  fg_device *device;
  fg_status status = fg_open(target, NULL, 0, level, &device, why, sizeof why);
  if (status != FG_OK) fprintf(stderr, "%s: %s\n", target, why);
  CHECK(status == FG_OK && device != NULL);
  return device;
}

static void opening(void) {
  const char *good[] = {"bus.clock_hz=1e6", NULL}, *bad[] = {"nothing.there=1", NULL};
  char why[12];
  fg_device *device = (fg_device *)&device;
  CHECK(fg_abi_version() == FG_ABI_VERSION);
  CHECK(fg_open("no-such-chip", NULL, 0, FG_PINS, &device, why, sizeof why) == FG_NO_TARGET);
  CHECK(device == NULL && strlen(why) == sizeof why - 1);
  CHECK(fg_open(NULL, NULL, 0, FG_PINS, &device, NULL, 0) == FG_WRONG_ARGUMENT);
  CHECK(fg_open("\xff", NULL, 0, FG_PINS, &device, NULL, 0) == FG_WRONG_ARGUMENT);
  CHECK(fg_open("w25q128jv", NULL, 0, 7, &device, NULL, 0) == FG_WRONG_ARGUMENT);
  CHECK(fg_open("w25q128jv", NULL, 0, FG_PINS, NULL, NULL, 0) == FG_WRONG_ARGUMENT);
  why[0] = 0;
  CHECK(fg_open("w25q128jv", NULL, 0, FG_PINS, NULL, why, sizeof why) == FG_WRONG_ARGUMENT && why[0] != 0);
  CHECK(fg_open("w25q128jv", bad, 0, FG_PINS, &device, NULL, 0) == FG_NO_TARGET);
  OK(fg_open("w25q128jv", good, 0, FG_PINS, &device, NULL, 0));
  CHECK(fg_now(device) == 0 && fg_message(device)[0] == 0);
  OK(fg_spi_transfer(device, 1, 0, (const uint8_t *)"\x9f", NULL, 1));
  CHECK(fg_now(device) == 8000);
  OK(fg_spi_clock(device, 2000000));
  OK(fg_spi_transfer(device, 1, 0, (const uint8_t *)"\x9f", NULL, 1));
  CHECK(fg_now(device) == 12000);
  CHECK(fg_spi_clock(device, 0) == FG_WRONG_ARGUMENT && fg_message(device)[0] != 0);
  CHECK(fg_advance(device, UINT64_MAX) == FG_WRONG_ARGUMENT);
  fg_close(device);
  fg_close(NULL);
  CHECK(fg_now(NULL) == 0 && fg_advance(NULL, 1) == FG_WRONG_ARGUMENT && fg_violation_count(NULL) == 0);
  CHECK(fg_message(NULL)[0] == 0);
  for (fg_status status = -1; status < 20; status++) CHECK(fg_status_text(status)[0] != 0);
}

static void write_protect_pin(void) {
  const uint8_t wren[] = {0x06}, lock[] = {0x01, 0x84}, unlock[] = {0x01, 0};
  uint8_t status[2] = {0x05, 0};
  fg_device *chip = open_device("w25q128jv", FG_PINS), *nand = open_device("w25n01gv", FG_PINS);
  OK(fg_spi_write_protect(chip, 1));
  for (int round = 0; round < 2; round++) {
    OK(fg_spi_transfer(chip, 1, 0, wren, NULL, 1));
    OK(fg_spi_transfer(chip, 1, 0, round == 0 ? lock : unlock, NULL, 2));
    OK(fg_advance(chip, 20000000));
  }
  CHECK(fg_violation_count(chip) == 1);
  OK(fg_spi_transfer(chip, 1, 0, status, status, 2));
  CHECK((status[1] & 0xFC) == 0x84);
  OK(fg_spi_write_protect(chip, 0));
  OK(fg_spi_transfer(chip, 1, 0, unlock, NULL, 2));
  OK(fg_advance(chip, 20000000));
  status[0] = 0x05;
  OK(fg_spi_transfer(chip, 1, 0, status, status, 2));
  CHECK(status[1] == 0 && fg_violation_count(chip) == 1);
  CHECK(fg_spi_write_protect(nand, 1) == FG_WRONG_KIND);
  fg_close(nand);
  fg_close(chip);
}

static void spi_pins(void) {
  const uint8_t wren[] = {0x06}, erase[] = {0x20, 0, 0, 0}, program[] = {0x02, 0, 0, 0, 0xA5}, read[] = {0x03, 0, 0, 0};
  uint8_t byte = 0, bytes[5] = {0x03, 0, 0, 0, 0};
  char rule[100], sent[100];
  uint64_t at = 0;
  int32_t lost = 0;
  fg_device *chip = open_device("w25q128jv", FG_PINS), *copy;
  OK(fg_spi_clock(chip, 25000000));
  OK(fg_spi_transfer(chip, 1, 0, wren, NULL, 1));
  OK(fg_spi_transfer(chip, 1, 0, program, NULL, sizeof program));
  OK(fg_advance(chip, 10000000));
  OK(fg_spi_transfer(chip, 1, 0, bytes, bytes, sizeof bytes));
  CHECK(bytes[4] == 0xA5);
  /* Fast read on four lanes, its dummy cycles by number. */
  OK(fg_spi_transfer(chip, 1, 0, wren, NULL, 1));
  OK(fg_spi_transfer(chip, 1, 0, (const uint8_t *)"\x31\x02", NULL, 2));
  OK(fg_advance(chip, 100000000));
  OK(fg_spi_transfer(chip, 1, FG_HOLD, (const uint8_t *)"\x6b\0\0", NULL, 4));
  OK(fg_spi_dummy(chip, 8));
  OK(fg_spi_transfer(chip, 4, FG_HOLD, NULL, &byte, 1));
  OK(fg_spi_deselect(chip));
  CHECK(byte == 0xA5 && fg_violation_count(chip) == 0);
  OK(fg_fork(chip, &copy));
  OK(fg_spi_transfer(copy, 1, 0, wren, NULL, 1));
  OK(fg_spi_transfer(copy, 1, 0, erase, NULL, sizeof erase));
  OK(fg_advance(copy, 1000000000));
  OK(fg_spi_transfer(copy, 1, FG_HOLD, read, NULL, sizeof read));
  OK(fg_spi_transfer(copy, 1, 0, NULL, &byte, 1));
  CHECK(byte == 0xFF);
  OK(fg_spi_transfer(chip, 1, FG_HOLD, read, NULL, sizeof read));
  OK(fg_spi_transfer(chip, 1, 0, NULL, &byte, 1));
  CHECK(byte == 0xA5);
  fg_close(copy);
  CHECK(fg_fork(chip, NULL) == FG_WRONG_ARGUMENT);
  /* What silicon would ignore is recorded. */
  OK(fg_spi_transfer(chip, 1, 0, erase, NULL, sizeof erase));
  CHECK(fg_violation_count(chip) == 1);
  OK(fg_violation(chip, 0, &at, rule, sizeof rule, sent, sizeof sent));
  CHECK(at > 0 && strstr(rule, "write enable") && strcmp(sent, "20 00 00 00") == 0);
  OK(fg_violation(chip, 0, NULL, NULL, 0, NULL, 0));
  CHECK(fg_violation(chip, 1, NULL, NULL, 0, NULL, 0) == FG_OUT_OF_RANGE);
  CHECK(fg_spi_transfer(chip, 3, 0, wren, NULL, 1) == FG_WRONG_ARGUMENT);
  CHECK(fg_spi_transfer(chip, 1, 64, wren, NULL, 1) == FG_WRONG_ARGUMENT);
  CHECK(fg_spi_transfer(chip, 4, 0, wren, &byte, 1) == FG_WRONG_ARGUMENT);
  OK(fg_spi_transfer(chip, 1, 0, NULL, NULL, 0));
  CHECK(fg_spi_transfer(chip, 1, 0, wren, NULL, SIZE_MAX) == FG_WRONG_ARGUMENT);
  CHECK(fg_spi_transfer(chip, 1, 0, NULL, &byte, SIZE_MAX) == FG_WRONG_ARGUMENT);
  CHECK(fg_spi_transfer(chip, 1, 0, wren, &byte, SIZE_MAX) == FG_WRONG_ARGUMENT);
  /* Faults. */
  CHECK(fg_break_block(chip, 16u << 20, 1) == FG_OUT_OF_RANGE && fg_flip_bit(chip, 0, UINT32_MAX) == FG_OUT_OF_RANGE);
  CHECK(fg_break_block(chip, 1ull << 40, 1) == FG_OUT_OF_RANGE);
  OK(fg_flip_bit(chip, 0, 0));
  OK(fg_spi_transfer(chip, 1, FG_HOLD, read, NULL, sizeof read));
  OK(fg_spi_transfer(chip, 1, 0, NULL, &byte, 1));
  CHECK(byte == 0xA4 && fg_flip_bit(chip, UINT32_MAX, 0) == FG_OUT_OF_RANGE);
  OK(fg_break_block(chip, 0, 1));
  OK(fg_cut_power(chip, 1, 0.5));
  CHECK(fg_cut_power(chip, 0, 0.5) == FG_WRONG_ARGUMENT && fg_cut_power(chip, 1, 2) == FG_WRONG_ARGUMENT);
  OK(fg_spi_transfer(chip, 1, 0, wren, NULL, 1));
  OK(fg_spi_transfer(chip, 1, 0, erase, NULL, sizeof erase));
  OK(fg_advance(chip, 1000000000));
  OK(fg_power_lost(chip, &lost));
  CHECK(lost == 1);
  OK(fg_spi_transfer(chip, 1, FG_HOLD, read, NULL, sizeof read));
  OK(fg_spi_transfer(chip, 1, 0, NULL, &byte, 1));
  CHECK(byte == 0xFF);
  OK(fg_restore_power(chip));
  OK(fg_power_lost(chip, &lost));
  CHECK(lost == 0);
  /* Functions of other kinds. */
  CHECK(fg_nand_command(chip, 0xFF) == FG_WRONG_KIND && fg_cfi_write(chip, 0, 0) == FG_WRONG_KIND);
  CHECK(fg_mtd_erase(chip, 0, 0) == FG_WRONG_KIND && fg_mtd_read(chip, 0, &byte, 1, NULL) == FG_WRONG_KIND);
  fg_close(chip);
}

static void expectations(void) {
  const uint8_t old[] = "old", new[] = "new";
  fg_device *device = open_device("w25q128jv", FG_MTD), *copy;
  OK(fg_expect_write(device, "name", old, sizeof old));
  OK(fg_expect_synced(device, "name"));
  OK(fg_expect_write(device, "name", new, sizeof new));
  OK(fg_fork(device, &copy));
  OK(fg_expect_found(copy, "name", old, sizeof old));
  /* What was found stays, also after another value. */
  CHECK(fg_expect_found(copy, "name", new, sizeof new) == FG_LOST && strstr(fg_message(copy), "name"));
  OK(fg_expect_found(copy, "name", old, sizeof old));
  CHECK(fg_expect_found(copy, "name", old, SIZE_MAX) == FG_WRONG_ARGUMENT);
  fg_close(copy);
  OK(fg_expect_synced(device, NULL));
  CHECK(fg_expect_found(device, "name", NULL, 0) == FG_LOST);
  CHECK(fg_expect_write(device, NULL, new, 1) == FG_WRONG_ARGUMENT);
  CHECK(fg_expect_write(device, "name", NULL, 1) == FG_WRONG_ARGUMENT);
  fg_close(device);
}

static void nand_pins(void) {
  uint8_t id[2], page[8];
  int32_t ready = 1;
  const uint8_t address[] = {0, 0, 0, 0, 0}, data[] = "rawnand";
  fg_device *chip = open_device("mt29f2g08abaea", FG_PINS);
  OK(fg_nand_select(chip, 0));
  OK(fg_nand_command(chip, 0xFF));
  OK(fg_nand_ready(chip, &ready));
  CHECK(ready == 0 && fg_nand_ready(chip, NULL) == FG_WRONG_ARGUMENT);
  OK(fg_nand_wait(chip));
  OK(fg_nand_ready(chip, &ready));
  CHECK(ready == 1);
  OK(fg_nand_command(chip, 0x90));
  OK(fg_nand_address(chip, address, 1));
  OK(fg_nand_read(chip, id, 2));
  CHECK(id[0] == 0x2C && id[1] == 0xDA);
  OK(fg_nand_command(chip, 0x80));
  OK(fg_nand_address(chip, address, 5));
  OK(fg_nand_write(chip, data, sizeof data));
  OK(fg_nand_command(chip, 0x10));
  OK(fg_nand_wait(chip));
  OK(fg_nand_command(chip, 0x00));
  OK(fg_nand_address(chip, address, 5));
  OK(fg_nand_command(chip, 0x30));
  OK(fg_nand_wait(chip));
  OK(fg_nand_read(chip, page, sizeof page));
  CHECK(memcmp(page, data, sizeof data) == 0 && fg_violation_count(chip) == 0);
  CHECK(fg_nand_read(chip, NULL, 1) == FG_WRONG_ARGUMENT);
  OK(fg_nand_command(chip, 0xEB));
  CHECK(fg_violation_count(chip) == 1);
  CHECK(fg_nand_select(chip, 99) == FG_OUT_OF_RANGE);
  CHECK(fg_nand_address(chip, address, SIZE_MAX) == FG_WRONG_ARGUMENT);
  CHECK(fg_nand_write(chip, data, SIZE_MAX) == FG_WRONG_ARGUMENT && fg_nand_read(chip, page, SIZE_MAX) == FG_WRONG_ARGUMENT);
  fg_close(chip);
}

static void cfi_pins(void) {
  uint8_t word[2] = {0, 0};
  fg_device *chip = open_device("s29gl128p", FG_PINS);
  OK(fg_cfi_write(chip, 0xAA, 0x98));
  OK(fg_cfi_read(chip, 0x20, word, 2));
  CHECK(word[0] == 'Q');
  OK(fg_cfi_write(chip, 0, 0xF0));
  OK(fg_cfi_read(chip, 0, word, 2));
  CHECK(word[0] == 0xFF && fg_violation_count(chip) == 0);
  OK(fg_cfi_read(chip, UINT32_MAX, word, 2));
  CHECK(fg_violation_count(chip) == 1);
  fg_close(chip);
}

static void behind_a_driver(void) {
  fg_geometry geometry;
  uint8_t *page, *back, oob[4] = {0, 0, 0, 0};
  uint32_t corrected = 99;
  uint64_t before;
  int32_t bad = 9;
  fg_device *flash = open_device("w25n01gv", FG_MTD);
  OK(fg_mtd_geometry(flash, &geometry));
  CHECK(geometry.write_bytes == 2048 && geometry.size_bytes == 128u << 20 && geometry.oob_bytes == 64);
  page = (uint8_t *)malloc(geometry.write_bytes);
  back = (uint8_t *)malloc(geometry.write_bytes);
  memset(page, 0x3C, geometry.write_bytes);
  before = fg_now(flash);
  OK(fg_mtd_erase(flash, 0, geometry.erase_bytes));
  OK(fg_mtd_write(flash, 0, page, geometry.write_bytes));
  CHECK(fg_now(flash) > before);
  OK(fg_flip_bit(flash, 0, 5));
  CHECK(fg_flip_bit(flash, 0, 2112 * 8) == FG_OUT_OF_RANGE);
  CHECK(fg_break_block(flash, geometry.size_bytes, 1) == FG_OUT_OF_RANGE);
  CHECK(fg_mtd_read(flash, 0, back, SIZE_MAX, NULL) == FG_WRONG_ARGUMENT);
  OK(fg_mtd_read(flash, 0, back, geometry.write_bytes, &corrected));
  CHECK(memcmp(page, back, geometry.write_bytes) == 0 && corrected == 1);
  OK(fg_mtd_read(flash, 0, back, 1, NULL));
  CHECK(fg_mtd_write(flash, 0, page, geometry.write_bytes) == FG_NOT_ERASED && fg_message(flash)[0] != 0);
  CHECK(fg_mtd_write(flash, 1, page, 1) == FG_OUT_OF_RANGE);
  CHECK(fg_mtd_read(flash, geometry.size_bytes, back, 1, NULL) == FG_OUT_OF_RANGE);
  CHECK(fg_mtd_read(flash, UINT64_MAX, back, 2, NULL) == FG_OUT_OF_RANGE);
  OK(fg_mtd_write_oob(flash, geometry.write_bytes, (const uint8_t *)"oob", 4));
  OK(fg_mtd_read_oob(flash, geometry.write_bytes, oob, 4));
  CHECK(memcmp(oob, "oob", 4) == 0);
  OK(fg_mtd_is_bad(flash, geometry.erase_bytes, &bad));
  CHECK(bad == 0);
  OK(fg_mtd_mark_bad(flash, geometry.erase_bytes));
  OK(fg_mtd_is_bad(flash, geometry.erase_bytes, &bad));
  CHECK(bad == 1 && fg_mtd_erase(flash, geometry.erase_bytes, geometry.erase_bytes) == FG_BAD_BLOCK);
  OK(fg_break_block(flash, 2 * geometry.erase_bytes, 1));
  CHECK(fg_mtd_erase(flash, 2 * geometry.erase_bytes, geometry.erase_bytes) == FG_FAILED);
  OK(fg_cut_power(flash, 1, 0.3));
  CHECK(fg_mtd_erase(flash, 0, geometry.erase_bytes) == FG_POWER_LOST);
  CHECK(fg_mtd_read(flash, 0, back, 1, NULL) == FG_POWER_LOST);
  OK(fg_restore_power(flash));
  OK(fg_mtd_erase(flash, 0, geometry.erase_bytes));
  CHECK(fg_spi_transfer(flash, 1, 0, page, NULL, 1) == FG_WRONG_KIND);
  CHECK(fg_violation(flash, 0, NULL, NULL, 0, NULL, 0) == FG_WRONG_KIND && fg_violation_count(flash) == 0);
  free(page);
  free(back);
  fg_close(flash);
}

static void contents_of_a_file(void) {
  const uint8_t wren[] = {0x06}, program[] = {0x02, 0, 0, 1, 0xA5}, read[] = {0x03, 0, 0, 1};
  char path[] = "/tmp/floatgate-border-XXXXXX", link[64], text[1024];
  struct stat found;
  uint8_t byte = 0;
  int file = mkstemp(path);
  fg_device *chip = open_device("w25q128jv", FG_PINS), *other = open_device("w25q128jv", FG_PINS), *flash;
  CHECK(file >= 0);
  OK(fg_spi_clock(chip, 25000000));
  OK(fg_spi_transfer(chip, 1, 0, wren, NULL, 1));
  OK(fg_spi_transfer(chip, 1, 0, program, NULL, sizeof program));
  OK(fg_advance(chip, 10000000));
  OK(fg_save(chip, path));
  OK(fg_load(other, path));
  OK(fg_spi_clock(other, 25000000));
  OK(fg_spi_transfer(other, 1, FG_HOLD, read, NULL, sizeof read));
  OK(fg_spi_transfer(other, 1, 0, NULL, &byte, 1));
  CHECK(byte == 0xA5 && fg_violation_count(other) == 0);
  CHECK(fg_load(other, path) == FG_NOT_ERASED);
  CHECK(fg_save(chip, "/no/such/folder/file") == FG_FILE && fg_load(chip, NULL) == FG_WRONG_ARGUMENT);
  /* A link is followed, and no pipe is replaced. */
  snprintf(link, sizeof link, "%s.link", path);
  CHECK(symlink(path, link) == 0);
  OK(fg_save(chip, link));
  CHECK(lstat(link, &found) == 0 && S_ISLNK(found.st_mode));
  unlink(link);
  CHECK(mkfifo(link, 0600) == 0);
  CHECK(fg_save(chip, link) == FG_FILE);
  CHECK(lstat(link, &found) == 0 && S_ISFIFO(found.st_mode));
  unlink(link);
  fg_close(chip);
  fg_close(other);
  flash = open_device("w25n01gv", FG_MTD);
  CHECK(fg_load(flash, path) == FG_FILE && fg_message(flash)[0] != 0);
  OK(fg_mtd_erase(flash, 0, 131072));
  OK(fg_breakdown(flash, 1, text, sizeof text));
  CHECK(strstr(text, "\"array\": ") && text[0] == '{');
  OK(fg_breakdown(flash, 0, text, sizeof text));
  CHECK(fg_breakdown(flash, 0, text, 3) == FG_WRONG_ARGUMENT);
  fg_close(flash);
  close(file);
  unlink(path);
}

/* A command of an SD card, and its response. */
static uint8_t card_command(fg_device *card, const uint8_t *frame) {
  uint8_t answer = 0xFF;
  OK(fg_spi_transfer(card, 1, FG_HOLD, frame, NULL, 6));
  for (int tries = 0; tries < 9 && answer & 0x80; tries++) OK(fg_spi_transfer(card, 1, FG_HOLD, NULL, &answer, 1));
  return answer;
}

static void sd_card(void) {
  const uint8_t ones[] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
  uint8_t byte = 0;
  int32_t lost = 0;
  fg_device *card = open_device("kingston-microsd-8g", FG_PINS);
  CHECK(fg_spi_transfer(card, 1, FG_IDLE | FG_HOLD, ones, NULL, 1) == FG_WRONG_ARGUMENT);
  OK(fg_spi_transfer(card, 1, FG_IDLE, ones, NULL, sizeof ones));
  CHECK(card_command(card, (const uint8_t *)"\x40\0\0\0\0\x95") == 1);
  OK(fg_spi_deselect(card));
  CHECK(card_command(card, (const uint8_t *)"\x48\0\0\x01\xaa\x87") == 1);
  OK(fg_spi_transfer(card, 1, FG_HOLD, NULL, &byte, 1));
  OK(fg_spi_transfer(card, 1, FG_HOLD, NULL, &byte, 1));
  OK(fg_spi_transfer(card, 1, FG_HOLD, NULL, &byte, 1));
  CHECK(byte == 1);
  OK(fg_spi_transfer(card, 1, 0, NULL, &byte, 1));
  CHECK(byte == 0xAA && fg_violation_count(card) == 0);
  OK(fg_spi_clock(card, 25000000));
  CHECK(card_command(card, (const uint8_t *)"\x51\0\0\0\0\x55") == 5);
  CHECK(fg_violation_count(card) == 2);
  OK(fg_restore_power(card));
  OK(fg_power_lost(card, &lost));
  CHECK(lost == 0 && fg_spi_transfer(card, 4, 0, ones, NULL, 1) == FG_WRONG_ARGUMENT);
  CHECK(fg_save(card, "x") == FG_WRONG_KIND && fg_mtd_erase(card, 0, 1) == FG_WRONG_KIND);
  fg_close(card);
}

int main(void) {
  opening();
  spi_pins();
  write_protect_pin();
  expectations();
  nand_pins();
  cfi_pins();
  behind_a_driver();
  contents_of_a_file();
  sd_card();
  printf("%d checks of the C interface passed\n", checks);
  return 0;
}
