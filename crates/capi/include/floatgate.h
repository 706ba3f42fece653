/* floatgate: simulated flash chips, at their pins and behind their drivers, in virtual time.
 *
 * A device is a chip of the catalogue, or the chip of a board. Each device has its own clock. It advances with each operation and with
 * fg_advance. There is no global state: different threads may use different devices at the same time, but each device only one thread
 * at a time. No function aborts the process: every function returns a status, and fg_message returns the error message.
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

/* Increases with each change of the interface that requires programs to be recompiled. */
#define FG_ABI_VERSION 1

/* Version of the library's interface; compare it with FG_ABI_VERSION. */
uint32_t fg_abi_version(void);

typedef struct fg_device fg_device;

/* Result of a function. */
typedef int32_t fg_status;
#define FG_OK 0
#define FG_WRONG_ARGUMENT 1  /* a null pointer, a text that is not UTF-8, an invalid number */
#define FG_NO_TARGET 2       /* no such setup or part, or a wrong key or value */
#define FG_WRONG_KIND 3      /* the function is for another kind of device */
#define FG_OUT_OF_RANGE 4    /* beyond the end of the device, or not a multiple of its unit */
#define FG_NOT_ERASED 5      /* the target is not erased */
#define FG_WRITE_PROTECTED 6
#define FG_BAD_BLOCK 7
#define FG_FAILED 8          /* the chip reports that a program or an erase failed */
#define FG_UNCORRECTABLE 9   /* more bit errors than the ECC corrects; the buffer contains the raw bytes */
#define FG_POWER_LOST 10
#define FG_REFUSED 11        /* the chip refuses a command of its driver, or does not answer */
#define FG_UNSUPPORTED 12    /* the device has no such function */
#define FG_INTERNAL 13       /* a bug in floatgate; please report it */
#define FG_LOST 14           /* a found value is not one of the allowed values */
#define FG_FILE 15           /* a file cannot be read or written, or has other contents */

/* Description of a status. */
const char *fg_status_text(fg_status status);

/* Message of the last failed call on this device, or an empty text if no call has failed; valid until the next call. */
const char *fg_message(const fg_device *device);

/* Levels at which a device is driven. */
#define FG_PINS 0 /* at its pins, for your own driver: fg_spi_, fg_nand_, fg_cfi_ */
#define FG_MTD 1  /* behind the driver of its board: fg_mtd_ */

/* Opens a setup or part by its name (see `floatgate list setups` and `floatgate list parts`), a setup's TOML file by its path, or an SD card
 * by its name (`floatgate list parts --kind sd-card`; FG_PINS, in SPI mode). `sets` is NULL, or a list of texts "key=value" that ends with
 * NULL. The seed determines factory bad blocks, lives of blocks and wrong bits. On failure *device is NULL. `message`, if not NULL, then
 * contains the reason, truncated to `message_size` bytes including the final zero.
 */
fg_status fg_open(const char *target, const char *const *sets, uint64_t seed, int32_t level, fg_device **device, char *message,
                  size_t message_size);

/* Closes a device. NULL is allowed. */
void fg_close(fg_device *device);

/* Makes an independent copy with the same contents, clock and faults. A copy is cheap, because unchanged contents are shared. */
fg_status fg_fork(const fg_device *device, fg_device **copy);

/* Virtual time in ns since the device was opened; 0 for NULL. */
uint64_t fg_now(fg_device *device);

/* Advances the virtual clock. */
fg_status fg_advance(fg_device *device, uint64_t ns);

/* ---- A SPI NOR or NAND, or an SD card in SPI mode, at its pins (FG_PINS) ---- */

#define FG_DTR 1  /* a bit on each clock edge */
#define FG_HOLD 2 /* CS# stays low after this transfer, and the next transfer continues the command */
#define FG_IDLE 4 /* CS# is high. An SD card needs 74 such clock cycles with FFh after power-on; its clock is 400 kHz until it is initialised */

/* Transfers bytes on 1, 2, 4 or 8 lanes. CS# goes low if it is high. If `sent` is NULL, the host sends nothing. If `received` is NULL, the
 * bytes from the chip are ignored. With both, bytes are transferred in both directions at the same time, on one lane each. A command that
 * the chip does not have is not an error: reads return FFh, as from floating lines, and a violation is recorded.
 */
fg_status fg_spi_transfer(fg_device *device, uint32_t lanes, uint32_t flags, const uint8_t *sent, uint8_t *received, size_t length);

/* Sends dummy clock cycles; their number need not be a whole number of bytes. CS# stays low. */
fg_status fg_spi_dummy(fg_device *device, uint32_t cycles);

/* Drives CS# high: the chip executes the command. */
fg_status fg_spi_deselect(fg_device *device);

/* Sets the clock of the following transfers. The initial clock is that of the setup, or the limit of the chip's slowest read on one line if that is lower. */
fg_status fg_spi_clock(fg_device *device, uint32_t hz);

/* Drives the pin WP# of a SPI NOR: low if not 0. It is initially high. While it is low and the bit SRP (SRWD) is set, the chip
 * ignores writes of its status registers, unless its quad enable bit is set. */
fg_status fg_spi_write_protect(fg_device *device, int32_t low);

/* ---- A raw NAND at its pins (FG_PINS) ---- */

/* Drives the CE# of this target. Target 0 is selected initially. FG_OUT_OF_RANGE: the device has no such target. */
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
  uint32_t oob_free_bytes; /* those of them that the ECC does not use */
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

/* Time of the driver by phase since the device was opened: lines of text, or with json != 0 an object with the nanoseconds of each phase. Needs 1 KiB. */
fg_status fg_breakdown(fg_device *device, int32_t json, char *text, size_t size);

/* ---- Contents as a file ---- */

/* Writes the contents to a file. After a failure, the old file is unchanged. The file of a NOR is a plain image. At its pins, the image is followed by
 * registers and OTP area, as in `floatgate serve --state`. The file of a NAND is a dump with OOB, which `floatgate image` reads. Wear is not saved.
 * An SD card cannot be saved. A symbolic link is followed, and a device or pipe receives the bytes.
 */
fg_status fg_save(fg_device *device, const char *path);
/* Reads a file of fg_save, or a plain image of a NOR, into a device that was just opened. */
fg_status fg_load(fg_device *device, const char *path);

/* ---- Faults ---- */

/* Cuts power during the program or erase with this number, after this share (0 to 1) of it. The next program or erase has the number 1. */
fg_status fg_cut_power(fg_device *device, uint64_t operation, double share);
/* *lost is 1 if power is lost, else 0. Without power, chips at their pins read as FFh, and drivers report FG_POWER_LOST. */
fg_status fg_power_lost(fg_device *device, int32_t *lost);
/* Switches power on again. The driver of FG_MTD initialises its chip again. */
fg_status fg_restore_power(fg_device *device);
/* If fails is not 0, all following programs and erases of the block at this address fail; else they work again. FG_OUT_OF_RANGE: beyond the end. */
fg_status fg_break_block(fg_device *device, uint64_t address, int32_t fails);
/* Inverts a bit (byte * 8 + bit number, OOB after the data) of a page until its block is erased. */
fg_status fg_flip_bit(fg_device *device, uint32_t page, uint32_t bit);

/* ---- Violations of a chip's rules, at its pins (FG_PINS) ---- */

/* Number of violations so far; 0 on other devices. */
uint64_t fg_violation_count(const fg_device *device);

/* One of the first 4096 violations. *at_ns, if not NULL, is the start of the command. `rule` and `bytes`, if not NULL, receive the broken rule as text
 * and the first bytes of the command in hexadecimal, both truncated to their sizes including the final zero.
 */
fg_status fg_violation(fg_device *device, uint64_t index, uint64_t *at_ns, char *rule, size_t rule_size, char *bytes, size_t bytes_size);

/* ---- Values that must be found after a power cut ---- */

/* The device keeps a reference model in addition to its contents. For each name (a key, a file, a slot) the model has the value that was
 * synchronised last, and the values that were written since. Only these values may be found after a power cut. A value is NULL if the name is absent.
 */

/* Reports that the program begins to write this value (NULL: to remove the name). Call this function before the flash changes. */
fg_status fg_expect_write(fg_device *device, const char *name, const uint8_t *value, size_t length);
/* Reports that the value written last to this name (NULL: to each name) is on flash. Older values may then not be found any more. */
fg_status fg_expect_synced(fg_device *device, const char *name);
/* Reports that the program finds this value. If the value is not allowed, the result is FG_LOST with the reason as message, and the model does
 * not change. Otherwise this value must stay from now on. */
fg_status fg_expect_found(fg_device *device, const char *name, const uint8_t *value, size_t length);

/* ---- A program for `floatgate powercut SETUP --lib PROGRAM.so` ---- */

/* The program is a shared object that defines these functions; floatgate has all fg_ functions, so nothing is linked:
 *   cc -shared -fPIC -o program.so program.c
 * The device is open, behind its driver (FG_MTD). Each function returns NULL, or a text with the error. When power is cut, the current call of
 * the program does not return. The next boot has a new copy of the program, with the initial values of its static variables.
 */

/* Brings the erased device into its state after production. Optional. */
const char *floatgate_test_prepare(fg_device *device);
/* Boots: reads the contents of the flash, and repairs them after a power cut. */
const char *floatgate_test_recover(fg_device *device);
/* Executes step `number` of the workload. The step must depend only on this number. Any selection of steps must be possible, because failures are shortened. */
const char *floatgate_test_step(fg_device *device, uint32_t number);
/* Reads all contents, reports each value with fg_expect_found, and checks its own invariants. A name that was synchronised but is not
 * reported counts as lost. Optional. */
const char *floatgate_test_check(fg_device *device);

/* ---- A driver for `floatgate conformance PART --driver DRIVER.so` ---- */

/* The driver is a shared object that defines these functions. The chip is at its pins (FG_PINS), as a board has it after power-on. Each function
 * returns NULL, or a text with the error. NULL means that the operation is complete and the chip is ready.
 */

/* Finds the chip, initialises it, and returns its sizes; oob_bytes and oob_free_bytes are ignored. On NOR write_bytes is 1. */
const char *floatgate_driver_probe(fg_device *chip, fg_geometry *geometry);
/* Reads at any address. */
const char *floatgate_driver_read(fg_device *chip, uint64_t address, uint8_t *bytes, size_t length);
/* Programs erased bytes: a page of a NAND or SPI NOR, a program buffer of a parallel NOR (16 bytes if it has none). */
const char *floatgate_driver_program(fg_device *chip, uint64_t address, const uint8_t *bytes, size_t length);
/* Erases one eraseblock. */
const char *floatgate_driver_erase(fg_device *chip, uint64_t address);
/* *bad is 1 when the eraseblock at this address is marked bad, else 0. Needed for NAND. */
const char *floatgate_driver_is_bad(fg_device *chip, uint64_t address, int32_t *bad);
/* Leaves the chip in the state that a boot ROM expects after a warm reset. Optional. */
const char *floatgate_driver_release(fg_device *chip);

#ifdef __cplusplus
}
#endif

#endif
