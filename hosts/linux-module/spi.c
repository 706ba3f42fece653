// SPDX-License-Identifier: (MIT OR GPL-2.0)
/* A SPI memory controller whose operations are requests to the process. */
#include <linux/spi/spi.h>
#include <linux/spi/spi-mem.h>
#include <linux/version.h>
#include "bus.h"

static struct fg_bus *fg_bus_of_mem(const struct spi_mem *mem)
{
	return *(struct fg_bus **)spi_controller_get_devdata(mem->spi->controller);
}

static struct fg_spi_op fg_form(const struct spi_mem_op *op)
{
	struct fg_spi_op form = {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
		.max_hz = op->max_freq,
#endif
		.opcode = op->cmd.opcode,
		.cmd_bytes = op->cmd.nbytes,
		.cmd_lanes = op->cmd.buswidth,
		.addr_bytes = op->addr.nbytes,
		.addr_lanes = op->addr.buswidth,
		.dummy_bytes = op->dummy.nbytes,
		.dummy_lanes = op->dummy.buswidth,
		.data_lanes = op->data.buswidth,
		.dir = op->data.dir,
		.dtr = (op->cmd.dtr ? FG_DTR_CMD : 0) | (op->addr.dtr ? FG_DTR_ADDR : 0) |
		       (op->dummy.dtr ? FG_DTR_DUMMY : 0) | (op->data.dtr ? FG_DTR_DATA : 0),
	};

	return form;
}

/* The core asks before each operation, so answers are kept. */
static bool fg_supports_op(struct spi_mem *mem, const struct spi_mem_op *op)
{
	struct fg_bus *bus = fg_bus_of_mem(mem);
	struct fg_spi_op form = fg_form(op);
	unsigned int i, known = min_t(unsigned int, bus->form_count, FG_FORMS_MAX);
	bool supported;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	/* Operations carry no order of bytes. */
	if (op->data.swap16)
		return false;
#endif
	fg_begin(bus, FG_SUPPORTS);
	for (i = 0; i < known; i++)
		if (!memcmp(&bus->forms[i], &form, sizeof(form)))
			break;
	if (i < known) {
		supported = bus->form_supported[i];
	} else {
		int result;

		fg_put(bus, &form, sizeof(form));
		result = fg_send(bus, 0);
		supported = result > 0;
		if (result >= 0) {
			i = bus->form_count++ % FG_FORMS_MAX;
			bus->forms[i] = form;
			bus->form_supported[i] = supported;
		}
	}
	fg_end(bus);
	return supported;
}

static int fg_adjust_op_size(struct spi_mem *mem, struct spi_mem_op *op)
{
	op->data.nbytes = min(op->data.nbytes, fg_bus_of_mem(mem)->config.max_data);
	return 0;
}

static int fg_transfer(struct fg_bus *bus, u32 kind, const struct spi_mem_op *op, const struct fg_poll *poll)
{
	struct fg_spi_op form = fg_form(op);
	u32 len = op->data.dir == SPI_MEM_NO_DATA ? 0 : op->data.nbytes;
	u32 out_len = op->data.dir == SPI_MEM_DATA_OUT ? len : 0, in_len = len - out_len;
	struct fg_request *request;
	int err;

	form.addr = op->addr.nbytes ? op->addr.val : 0;
	request = fg_begin(bus, kind);
	request->out_len = out_len;
	fg_put(bus, &form, sizeof(form));
	if (poll)
		fg_put(bus, poll, sizeof(*poll));
	if (out_len)
		fg_put(bus, op->data.buf.out, out_len);
	err = fg_send(bus, in_len);
	if (!err && in_len)
		memcpy(op->data.buf.in, bus->reply, in_len);
	fg_end(bus);
	return err < 0 ? err : 0;
}

static int fg_exec_op(struct spi_mem *mem, const struct spi_mem_op *op)
{
	return fg_transfer(fg_bus_of_mem(mem), FG_EXEC, op, NULL);
}

static int fg_poll_status(struct spi_mem *mem, const struct spi_mem_op *op, u16 mask, u16 match,
			  unsigned long initial_us, unsigned long interval_us, unsigned long timeout_ms)
{
	struct fg_poll poll = { initial_us, interval_us };

	return fg_transfer(fg_bus_of_mem(mem), FG_POLL, op, &poll);
}

static int fg_dirmap_create(struct spi_mem_dirmap_desc *desc)
{
	bool reads = desc->info.op_tmpl.data.dir == SPI_MEM_DATA_IN;
	u32 needs = reads ? FG_CAP_DIRMAP_READ : FG_CAP_DIRMAP_WRITE;

	if (!(fg_bus_of_mem(desc->mem)->config.caps & needs) || !fg_supports_op(desc->mem, &desc->info.op_tmpl))
		return -EOPNOTSUPP;
	return 0;
}

/* The core calls again for what is left. */
static ssize_t fg_mapped(struct spi_mem_dirmap_desc *desc, u64 offs, struct spi_mem_op *op)
{
	struct fg_bus *bus = fg_bus_of_mem(desc->mem);
	int err;

	op->addr.val = desc->info.offset + offs;
	op->data.nbytes = min(op->data.nbytes, bus->config.max_mapped);
	err = fg_transfer(bus, FG_MAPPED, op, NULL);
	return err ? err : op->data.nbytes;
}

static ssize_t fg_dirmap_read(struct spi_mem_dirmap_desc *desc, u64 offs, size_t len, void *buf)
{
	struct spi_mem_op op = desc->info.op_tmpl;

	op.data.buf.in = buf;
	op.data.nbytes = min_t(size_t, len, FG_DATA_MAX);
	return fg_mapped(desc, offs, &op);
}

static ssize_t fg_dirmap_write(struct spi_mem_dirmap_desc *desc, u64 offs, size_t len, const void *buf)
{
	struct spi_mem_op op = desc->info.op_tmpl;

	op.data.buf.out = buf;
	op.data.nbytes = min_t(size_t, len, FG_DATA_MAX);
	return fg_mapped(desc, offs, &op);
}

static const struct spi_controller_mem_ops fg_mem_ops = {
	.adjust_op_size = fg_adjust_op_size,
	.supports_op = fg_supports_op,
	.exec_op = fg_exec_op,
	.dirmap_create = fg_dirmap_create,
	.dirmap_read = fg_dirmap_read,
	.dirmap_write = fg_dirmap_write,
	.poll_status = fg_poll_status,
};

/* fg_supports_op() decides; these are what drivers look at besides. */
static const struct spi_controller_mem_caps fg_mem_caps = {
	.dtr = true,
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
	.per_op_freq = true,
#endif
};

int fg_spi_probe(struct fg_bus *bus, struct device *dev)
{
	struct spi_board_info chip = {
		.max_speed_hz = bus->config.clock_hz,
	};
	struct spi_controller *controller;
	int err;

	controller = __devm_spi_alloc_controller(dev, sizeof(bus), false);
	if (!controller)
		return -ENOMEM;
	*(struct fg_bus **)spi_controller_get_devdata(controller) = bus;
	controller->bus_num = -1;
	controller->num_chipselect = 1;
	controller->max_speed_hz = bus->config.clock_hz;
	controller->mem_ops = &fg_mem_ops;
	controller->mem_caps = &fg_mem_caps;
	err = devm_spi_register_controller(dev, controller);
	if (err)
		return err;
	strscpy(chip.modalias, bus->config.kind == FG_SPI_NOR ? "spi-nor" : "spi-nand", sizeof(chip.modalias));
	/* The chip goes with the controller. */
	return spi_new_device(controller, &chip) ? 0 : -ENODEV;
}
