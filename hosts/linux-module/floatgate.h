/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/*
 * Protocol of /dev/floatgate, between the kernel module and the process that simulates the chip.
 *
 * The process writes one struct fg_config. From then on each read() returns one request, and each write() is its answer. The module has one
 * request under way at a time. Numbers have their lowest byte first: the module is for little-endian machines. Each structure has its padding written out.
 *
 * A request is a struct fg_request and its body:
 *	FG_SUPPORTS, FG_EXEC, FG_MAPPED	struct fg_spi_op, then `out_len` bytes for the chip
 *	FG_POLL				struct fg_spi_op, then struct fg_poll
 *	FG_NAND				`count` struct fg_nand_instr, then `out_len` bytes for the chip
 *	FG_INTERFACE			struct fg_interface
 *	FG_READY			nothing; `target` is the number of the MTD device, or ~0 if no driver has taken the chip
 * An answer is a struct fg_answer, and `in_len` bytes from the chip if its result is 0.
 */
#ifndef FLOATGATE_H
#define FLOATGATE_H

#include <linux/types.h>

#define FG_MAGIC 0x01006766 /* "fg", version 1 */

#define FG_DATA_MAX 65536 /* most data bytes of a request or an answer */
#define FG_INSTR_MAX 32 /* most instructions of a raw NAND operation */
#define FG_ADDR_MAX 8 /* most address cycles of an instruction */
#define FG_TARGETS_MAX 8 /* most CE# lines */

/* fg_config.kind */
#define FG_SPI_NOR 1
#define FG_SPI_NAND 2
#define FG_RAW_NAND 3

/* fg_config.caps */
#define FG_CAP_DIRMAP_READ 1
#define FG_CAP_DIRMAP_WRITE 2
#define FG_CAP_NO_SUBPAGE_WRITE 4

/* fg_config.ecc */
#define FG_ECC_NONE 0
#define FG_ECC_SOFT_BCH 1
#define FG_ECC_SOFT_HAMMING 2
#define FG_ECC_ON_DIE 3

struct fg_config {
	__u32 magic;
	__u32 kind;
	__u32 caps;
	__u32 clock_hz; /* spi-max-frequency */
	__u32 max_data; /* most data bytes of one operation */
	__u32 max_mapped; /* most data bytes of one direct mapped transfer */
	__u32 targets; /* CE# lines of a raw NAND */
	__u32 ecc; /* of a raw NAND */
	__u32 ecc_step; /* bytes */
	__u32 ecc_strength; /* bits per step */
};

/* fg_request.kind */
#define FG_SUPPORTS 1
#define FG_EXEC 2
#define FG_MAPPED 3
#define FG_POLL 4
#define FG_NAND 5
#define FG_INTERFACE 6
#define FG_READY 7

struct fg_request {
	__u32 id; /* the answer has the same */
	__u32 kind;
	__u32 count;
	__u32 target; /* CE# */
	__u32 out_len;
	__u32 in_len;
};

struct fg_answer {
	__u32 id;
	__s32 result; /* 0 or a negative error number; FG_SUPPORTS: 1 or 0 */
};

/* fg_spi_op.dtr */
#define FG_DTR_CMD 1
#define FG_DTR_ADDR 2
#define FG_DTR_DUMMY 4
#define FG_DTR_DATA 8

/* fg_spi_op.dir, as enum spi_mem_data_dir */
#define FG_NO_DATA 0
#define FG_DATA_IN 1
#define FG_DATA_OUT 2

/* struct spi_mem_op of the kernel. A phase that is absent has 0 bytes. */
struct fg_spi_op {
	__u64 addr;
	__u32 max_hz; /* 0: spi-max-frequency alone counts */
	__u16 opcode;
	__u8 cmd_bytes;
	__u8 cmd_lanes;
	__u8 addr_bytes;
	__u8 addr_lanes;
	__u8 dummy_bytes;
	__u8 dummy_lanes;
	__u8 data_lanes;
	__u8 dir;
	__u8 dtr;
	__u8 zero;
};

/* The read of a status until the chip is ready. */
struct fg_poll {
	__u32 initial_us; /* pause before the first read */
	__u32 interval_us; /* pause between reads */
};

/* fg_nand_instr.kind, as enum nand_op_instr_type */
#define FG_INSTR_CMD 0
#define FG_INSTR_ADDR 1
#define FG_INSTR_DATA_IN 2
#define FG_INSTR_DATA_OUT 3
#define FG_INSTR_WAIT 4

struct fg_nand_instr {
	__u8 kind;
	__u8 value; /* command; number of address cycles; 1 for data that goes over 8 lines in any interface */
	__u16 zero;
	__u32 len; /* data bytes; FG_INSTR_WAIT: most ms */
	__u8 addr[8]; /* address cycles */
};

struct fg_interface {
	__u32 nvddr; /* 1: NV-DDR, 0: SDR */
	__u32 mode;
	__u32 check_only;
};

#endif
