/* floatgate: simulated flash chips, at their pins and behind their drivers, in virtual time.
 *
 * A device is a chip of the catalogue, or the chip of a board. Each has a clock of its own, which moves with what is sent and with
 * fg_advance. There is no global state: different threads may use different devices at the same time; one device is used by one thread
 * at a time. Nothing here aborts the process: every function reports a status, and fg_message says in words what was wrong.
 *
 * Link with -lfloatgate. C99, C++11.
 */
#ifndef FLOATGATE_H
#define FLOATGATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with each change of the interface after which a program must be compiled anew. */
#define FG_ABI_VERSION 1

/* Version of the library's interface; compare it with FG_ABI_VERSION. */
uint32_t fg_abi_version(void);

typedef struct fg_device fg_device;

/* Result of a function. */
typedef int32_t fg_status;
#define FG_OK 0
#define FG_WRONG_ARGUMENT 1  /* a null pointer, a text that is not UTF-8, a number without meaning */
#define FG_NO_TARGET 2       /* no such setup or part, or a key or value that is wrong */
#define FG_WRONG_KIND 3      /* the function is for another kind of device */
#define FG_OUT_OF_RANGE 4    /* beyond the end of the device, or not a multiple of its unit */
#define FG_NOT_ERASED 5      /* the target is not erased */
#define FG_WRITE_PROTECTED 6
#define FG_BAD_BLOCK 7
#define FG_FAILED 8          /* the chip reports that a program or an erase failed */
#define FG_UNCORRECTABLE 9   /* more bit errors than the ECC corrects; the buffer holds the raw bytes */
#define FG_POWER_LOST 10
#define FG_REFUSED 11        /* the chip refuses a command of its driver, or does not answer */
#define FG_UNSUPPORTED 12    /* the device has no such function */
#define FG_INTERNAL 13       /* a bug in floatgate: please report it */
#define FG_LOST 14           /* a value that was found is not one that may be there */
#define FG_FILE 15           /* a file cannot be read or written, or holds something else */

/* Words for a status. */
const char *fg_status_text(fg_status status);

/* Message of the last call on this device that failed, empty before; valid until the next call. */
const char *fg_message(const fg_device *device);

/* Levels at which a device is driven. */
#define FG_PINS 0 /* at its pins: fg_spi_, fg_nand_, fg_cfi_; a driver of your own */
#define FG_MTD 1  /* behind the driver of its board: fg_mtd_ */

/* Opens a setup or part by its name (see `floatgate setups`, `floatgate parts`), a setup's TOML file by its path, or an SD card by its name
 * (`floatgate list parts --kind sd-card`; FG_PINS, in SPI mode). `sets` is NULL or a
 * list of texts "key=value" that ends with NULL. Factory bad blocks, lives of blocks and wrong bits follow from the seed. On failure
 * *device is NULL and `message`, if not NULL, holds the reason, cut to `message_size` bytes with the final zero.
 */
fg_status fg_open(const char *target, const char *const *sets, uint64_t seed, int32_t level, fg_device **device, char *message,
                  size_t message_size);

/* Closes a device. NULL is allowed. */
void fg_close(fg_device *device);

/* Makes a copy that goes its own way, with contents, clock and faults. It costs little: what neither changes is shared. */
fg_status fg_fork(const fg_device *device, fg_device **copy);

/* Virtual time in ns since the device was opened; 0 for NULL. */
uint64_t fg_now(fg_device *device);

/* Lets time pass. */
fg_status fg_advance(fg_device *device, uint64_t ns);

/* ---- A SPI NOR or NAND, or an SD card in SPI mode, at its pins (FG_PINS) ---- */

#define FG_DTR 1  /* a bit on each clock edge */
#define FG_HOLD 2 /* CS# stays low after this transfer: the next one goes on with the same command */
#define FG_IDLE 4 /* CS# is high: an SD card needs 74 clock cycles with FFh so after power-on, and its clock is 400 kHz until it is initialised */

/* Transfers bytes on 1, 2, 4 or 8 lanes. CS# goes low where it is high. `sent` NULL: the host drives nothing; `received` NULL: nobody looks at
 * what the chip sends. With both, the bytes go in both directions at once, on one lane each. A command that the chip does not have is
 * no failure: it reads as FFh, as from lines that nobody drives, and is recorded as a violation.
 */
fg_status fg_spi_transfer(fg_device *device, uint32_t lanes, uint32_t flags, const uint8_t *sent, uint8_t *received, size_t length);

/* Clocks dummy cycles, also those that make no whole byte. CS# stays low. */
fg_status fg_spi_dummy(fg_device *device, uint32_t cycles);

/* Drives CS# high: the chip executes the command. */
fg_status fg_spi_deselect(fg_device *device);

/* Sets the clock of what is sent from now on; at first it is that of the setup, or the limit of the chip's slowest read on one line if that is lower. */
fg_status fg_spi_clock(fg_device *device, uint32_t hz);

/* Drives the pin WP# of a SPI NOR: low if not 0. It is high at first. While it is low and the bit SRP (SRWD) is set, the chip
 * ignores writes of its status registers, unless its quad enable bit is set. */
fg_status fg_spi_write_protect(fg_device *device, int32_t low);

/* ---- A raw NAND at its pins (FG_PINS) ---- */

/* Drives the CE# of this target. Target 0 is selected at first. FG_OUT_OF_RANGE: the device has no such target. */
fg_status fg_nand_select(fg_device *device, uint32_t target);
/* A command cycle. */
fg_status fg_nand_command(fg_device *device, uint8_t opcode);
/* Address cycles, one for each byte. */
fg_status fg_nand_address(fg_device *device, const uint8_t *bytes, size_t length);
/* Data cycles to the chip. */
fg_status fg_nand_write(fg_device *device, const uint8_t *bytes, size_t length);
/* Data cycles from the chip. */
fg_status fg_nand_read(fg_device *device, uint8_t *bytes, size_t length);
/* State of R/B#: *ready is 1 when the chip is ready, else 0. */
fg_status fg_nand_ready(fg_device *device, int32_t *ready);
/* Waits for R/B#. */
fg_status fg_nand_wait(fg_device *device);

/* ---- A parallel NOR at its pins (FG_PINS) ---- */

/* A cycle that writes a word at a byte address. */
fg_status fg_cfi_write(fg_device *device, uint32_t address, uint16_t word);
/* Cycles that read bytes from a byte address on. */
fg_status fg_cfi_read(fg_device *device, uint32_t address, uint8_t *bytes, size_t length);

/* ---- A device behind its driver (FG_MTD) ---- */

typedef struct fg_geometry {
  uint64_t size_bytes;
  uint32_t erase_bytes;    /* eraseblock */
  uint32_t write_bytes;    /* page of NAND; 1 on NOR */
  uint32_t oob_bytes;      /* of a page */
  uint32_t oob_free_bytes; /* of them those that the ECC leaves */
} fg_geometry;

fg_status fg_mtd_geometry(fg_device *device, fg_geometry *geometry);
/* Reads at any address. *corrected, if not NULL, is the number of bits that the ECC corrected. */
fg_status fg_mtd_read(fg_device *device, uint64_t address, uint8_t *bytes, size_t length, uint32_t *corrected);
/* Programs whole write units that are erased. */
fg_status fg_mtd_write(fg_device *device, uint64_t address, const uint8_t *bytes, size_t length);
/* Erases whole eraseblocks. */
fg_status fg_mtd_erase(fg_device *device, uint64_t address, uint64_t length);
/* The free OOB bytes of a page. */
fg_status fg_mtd_read_oob(fg_device *device, uint64_t address, uint8_t *bytes, size_t length);
fg_status fg_mtd_write_oob(fg_device *device, uint64_t address, const uint8_t *bytes, size_t length);
/* *bad is 1 when the block at this address is marked bad, else 0. */
fg_status fg_mtd_is_bad(fg_device *device, uint64_t address, int32_t *bad);
fg_status fg_mtd_mark_bad(fg_device *device, uint64_t address);

/* Where the time of the driver went since the device was opened: text in lines, or with json != 0 an object with the nanoseconds of each phase. Needs 1 KiB. */
fg_status fg_breakdown(fg_device *device, int32_t json, char *text, size_t size);

/* ---- Contents as a file ---- */

/* Writes the contents to a file, which is complete or stays as it was. A NOR is a plain image, at its pins with its registers and OTP area behind it, as
 * `floatgate serve --state` keeps it; a NAND is a dump with OOB, which `floatgate image` reads. Wear is not kept. An SD card has no such file.
 * A symbolic link is followed, and a device or pipe receives the bytes.
 */
fg_status fg_save(fg_device *device, const char *path);
/* Reads what fg_save wrote, or a plain image of a NOR, into a device that was just opened. */
fg_status fg_load(fg_device *device, const char *path);

/* ---- Faults ---- */

/* Cuts power in the program or erase of this number, counted from 1 from now on, when this share (0 to 1) of it is over. */
fg_status fg_cut_power(fg_device *device, uint64_t operation, double share);
/* *lost is 1 when power is lost, else 0. Without power, chips at their pins read as FFh, and drivers report FG_POWER_LOST. */
fg_status fg_power_lost(fg_device *device, int32_t *lost);
/* Power is back; the driver of FG_MTD sets its chip up again. */
fg_status fg_restore_power(fg_device *device);
/* From now on programs, if fails is not 0, and erases of the block at this address fail, or else work again. FG_OUT_OF_RANGE: beyond the end. */
fg_status fg_break_block(fg_device *device, uint64_t address, int32_t fails);
/* Inverts a bit (byte * 8 + bit number, OOB after the data) of a page until its block is erased. */
fg_status fg_flip_bit(fg_device *device, uint32_t page, uint32_t bit);

/* ---- Violations of a chip's rules, at its pins (FG_PINS) ---- */

/* Number of violations so far; 0 on other devices. */
uint64_t fg_violation_count(const fg_device *device);

/* One of the first 4096 violations. *at_ns, if not NULL, is when the command began; `rule` and `bytes`, if not NULL, get the broken rule in words and
 * the first bytes of the command in hexadecimal, both cut to their sizes with the final zero.
 */
fg_status fg_violation(fg_device *device, uint64_t index, uint64_t *at_ns, char *rule, size_t rule_size, char *bytes, size_t bytes_size);

/* ---- What must be found after a power cut ---- */

/* The device keeps a reference model beside its contents: for each name (a key, a file, a slot) the value that was synchronised last, and those
 * that were written since. Each of them may be found after a power cut; nothing else may. A value is NULL where the name is absent.
 */

/* The program begins to write this value (NULL: to remove the name). Call it before the flash changes. */
fg_status fg_expect_write(fg_device *device, const char *name, const uint8_t *value, size_t length);
/* The value written last to this name, or to all names with NULL, is on flash: an older one may not be found any more. */
fg_status fg_expect_synced(fg_device *device, const char *name);
/* The program finds this value: FG_LOST if it may not be there, with the reason as message; the model is then as before.
 * Otherwise it must stay from now on. */
fg_status fg_expect_found(fg_device *device, const char *name, const uint8_t *value, size_t length);

/* ---- A program for `floatgate powercut SETUP --lib PROGRAM.so` ---- */

/* The program is a shared object that defines these functions; floatgate has all fg_ functions, so nothing is linked:
 *   cc -shared -fPIC -o program.so program.c
 * The device is open, behind its driver (FG_MTD). Each function returns NULL, or a text that says what is wrong. Where power is cut, the call
 * of the program that was under way does not return; the next boot has a copy of the program whose static variables are as at its start.
 */

/* Brings the erased device into the state in which it leaves the factory. May be left out. */
const char *floatgate_test_prepare(fg_device *device);
/* Boots: reads what is on flash, and repairs it after a power cut. */
const char *floatgate_test_recover(fg_device *device);
/* Does step `number` of the workload, which follows from this number alone. Any selection of steps must make sense, as failures are shortened. */
const char *floatgate_test_step(fg_device *device, uint32_t number);
/* Looks at all that is there, reports each value with fg_expect_found, and checks its own invariants. A name that was synchronised and is not
 * reported is lost. May be left out. */
const char *floatgate_test_check(fg_device *device);

/* ---- A driver for `floatgate conformance PART --driver DRIVER.so` ---- */

/* The driver is a shared object that defines these functions. The chip is at its pins (FG_PINS), as a board has it after power-on. Each function
 * returns NULL, or a text that says what is wrong; NULL means that the operation is done and the chip is ready.
 */

/* Finds the chip, sets it up, and tells its sizes; oob_bytes and oob_free_bytes do not matter. On NOR write_bytes is 1. */
const char *floatgate_driver_probe(fg_device *chip, fg_geometry *geometry);
/* Reads at any address. */
const char *floatgate_driver_read(fg_device *chip, uint64_t address, uint8_t *bytes, size_t length);
/* Programs erased bytes: a page of a NAND or SPI NOR, a program buffer of a parallel NOR (16 bytes if it has none). */
const char *floatgate_driver_program(fg_device *chip, uint64_t address, const uint8_t *bytes, size_t length);
/* Erases one eraseblock. */
const char *floatgate_driver_erase(fg_device *chip, uint64_t address);
/* *bad is 1 when the eraseblock at this address is marked bad, else 0. Needed for NAND. */
const char *floatgate_driver_is_bad(fg_device *chip, uint64_t address, int32_t *bad);
/* Leaves the chip as a boot ROM expects it after a warm reset. May be left out. */
const char *floatgate_driver_release(fg_device *chip);

#ifdef __cplusplus
}
#endif

#endif
