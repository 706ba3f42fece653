// SPDX-License-Identifier: (MIT OR GPL-2.0)
/* A raw NAND controller whose operations are requests to the process. */
#include <linux/device.h>
#include <linux/mtd/rawnand.h>
#include <linux/slab.h>
#include "bus.h"

struct fg_nand {
	struct nand_controller controller;
	struct nand_chip chip;
	struct fg_bus *bus;
};

static struct fg_bus *fg_bus_of_chip(struct nand_chip *chip)
{
	return ((struct fg_nand *)nand_get_controller_data(chip))->bus;
}

static struct fg_nand_instr fg_instr(const struct nand_op_instr *from)
{
	struct fg_nand_instr to = { .kind = from->type };

	switch (from->type) {
	case NAND_OP_CMD_INSTR:
		to.value = from->ctx.cmd.opcode;
		break;
	case NAND_OP_ADDR_INSTR:
		to.value = min_t(unsigned int, from->ctx.addr.naddrs, FG_ADDR_MAX);
		memcpy(to.addr, from->ctx.addr.addrs, to.value);
		break;
	case NAND_OP_DATA_IN_INSTR:
	case NAND_OP_DATA_OUT_INSTR:
		to.value = from->ctx.data.force_8bit;
		to.len = from->ctx.data.len;
		break;
	case NAND_OP_WAITRDY_INSTR:
		to.len = from->ctx.waitrdy.timeout_ms;
		break;
	}
	return to;
}

/* Any sequence of instructions is possible. */
static int fg_exec_op(struct nand_chip *chip, const struct nand_operation *op, bool check_only)
{
	struct fg_bus *bus = fg_bus_of_chip(chip);
	struct fg_request *request;
	const struct nand_op_instr *instr, *end = op->instrs + op->ninstrs;
	size_t in_len = 0;
	void *from;
	int err;

	if (op->ninstrs > FG_INSTR_MAX)
		return -EOPNOTSUPP;
	if (check_only)
		return 0;
	request = fg_begin(bus, FG_NAND);
	request->count = op->ninstrs;
	request->target = op->cs;
	for (instr = op->instrs; instr < end; instr++) {
		struct fg_nand_instr one = fg_instr(instr);

		fg_put(bus, &one, sizeof(one));
		if (instr->type == NAND_OP_DATA_IN_INSTR)
			in_len += one.len;
	}
	for (instr = op->instrs; instr < end; instr++) {
		if (instr->type != NAND_OP_DATA_OUT_INSTR)
			continue;
		fg_put(bus, instr->ctx.data.buf.out, instr->ctx.data.len);
		request->out_len += instr->ctx.data.len;
	}
	err = fg_send(bus, in_len);
	from = bus->reply;
	for (instr = op->instrs; !err && instr < end; instr++) {
		if (instr->type != NAND_OP_DATA_IN_INSTR)
			continue;
		memcpy(instr->ctx.data.buf.in, from, instr->ctx.data.len);
		from += instr->ctx.data.len;
	}
	fg_end(bus);
	return err < 0 ? err : 0;
}

static int fg_setup_interface(struct nand_chip *chip, int line, const struct nand_interface_config *config)
{
	struct fg_bus *bus = fg_bus_of_chip(chip);
	struct fg_interface interface = {
		.nvddr = config->type == NAND_NVDDR_IFACE,
		.mode = config->timings.mode,
		.check_only = line == NAND_DATA_IFACE_CHECK_ONLY,
	};
	int err;

	fg_begin(bus, FG_INTERFACE);
	fg_put(bus, &interface, sizeof(interface));
	err = fg_send(bus, 0);
	fg_end(bus);
	return err < 0 ? err : 0;
}

static int fg_attach_chip(struct nand_chip *chip)
{
	const struct fg_config *config = &fg_bus_of_chip(chip)->config;
	struct nand_ecc_ctrl *ecc = &chip->ecc;

	switch (config->ecc) {
	case FG_ECC_SOFT_BCH:
	case FG_ECC_SOFT_HAMMING:
		ecc->engine_type = NAND_ECC_ENGINE_TYPE_SOFT;
		ecc->algo = config->ecc == FG_ECC_SOFT_BCH ? NAND_ECC_ALGO_BCH : NAND_ECC_ALGO_HAMMING;
		ecc->size = config->ecc_step;
		ecc->strength = config->ecc_strength;
		break;
	case FG_ECC_ON_DIE:
		ecc->engine_type = NAND_ECC_ENGINE_TYPE_ON_DIE;
		break;
	default:
		ecc->engine_type = NAND_ECC_ENGINE_TYPE_NONE;
	}
	return 0;
}

static const struct nand_controller_ops fg_nand_ops = {
	.attach_chip = fg_attach_chip,
	.exec_op = fg_exec_op,
	.setup_interface = fg_setup_interface,
};

static void fg_nand_remove(void *chip)
{
	WARN_ON(mtd_device_unregister(nand_to_mtd(chip)));
	nand_cleanup(chip);
}

int fg_nand_probe(struct fg_bus *bus, struct device *dev)
{
	struct fg_nand *nand = devm_kzalloc(dev, sizeof(*nand), GFP_KERNEL);
	struct mtd_info *mtd;
	int err;

	if (!nand)
		return -ENOMEM;
	nand->bus = bus;
	nand_controller_init(&nand->controller);
	nand->controller.ops = &fg_nand_ops;
	nand->chip.controller = &nand->controller;
	nand_set_controller_data(&nand->chip, nand);
	if (bus->config.caps & FG_CAP_NO_SUBPAGE_WRITE)
		nand->chip.options |= NAND_NO_SUBPAGE_WRITE;
	mtd = nand_to_mtd(&nand->chip);
	mtd->dev.parent = dev;
	mtd->owner = THIS_MODULE;
	err = nand_scan(&nand->chip, bus->config.targets);
	if (err)
		return err;
	err = mtd_device_register(mtd, NULL, 0);
	if (err) {
		nand_cleanup(&nand->chip);
		return err;
	}
	return devm_add_action_or_reset(dev, fg_nand_remove, &nand->chip);
}
