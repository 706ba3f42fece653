/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
#ifndef FLOATGATE_BUS_H
#define FLOATGATE_BUS_H

#include <linux/completion.h>
#include <linux/mtd/mtd.h>
#include <linux/mutex.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include "floatgate.h"

#define FG_FORMS_MAX 32

enum fg_state {
	FG_IDLE, /* no request */
	FG_POSTED, /* a request that the process has not read */
	FG_TAKEN, /* the process has read it */
};

/* The bus that one open file of /dev/floatgate is. */
struct fg_bus {
	struct list_head entry;
	struct fg_config config;
	struct platform_device *device;
	struct work_struct probe;
	struct work_struct ready;
	struct delayed_work removal;
	bool dead; /* the process has gone: each operation fails */

	struct mutex turn; /* held from fg_begin() to fg_end() */
	struct mutex lock; /* of what follows */
	enum fg_state state;
	wait_queue_head_t posted;
	struct completion answered;
	void *frame;
	size_t frame_len;
	void *reply;
	u32 in_len;
	u32 last_id;
	int result;

	/* The MTD device, with the hooks of its driver. */
	struct mtd_info *mtd;
	u32 mtd_number;
	atomic_t opens;
	int (*get_device)(struct mtd_info *mtd);
	void (*put_device)(struct mtd_info *mtd);

	/* Answers to FG_SUPPORTS; under `turn`. */
	struct fg_spi_op forms[FG_FORMS_MAX];
	bool form_supported[FG_FORMS_MAX];
	unsigned int form_count;
};

/* A request: begin, append its body with fg_put(), send, look at `reply`, end. */
struct fg_request *fg_begin(struct fg_bus *bus, u32 kind);
void fg_put(struct fg_bus *bus, const void *data, size_t len);
int fg_send(struct fg_bus *bus, size_t in_len);
void fg_end(struct fg_bus *bus);

int fg_spi_probe(struct fg_bus *bus, struct device *dev);
int fg_nand_probe(struct fg_bus *bus, struct device *dev);

#endif
