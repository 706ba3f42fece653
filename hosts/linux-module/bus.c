// SPDX-License-Identifier: (MIT OR GPL-2.0)
/*
 * floatgate: a flash chip that a process simulates, under the kernel's own drivers.
 *
 * Each open file of /dev/floatgate is one bus with one chip. The process writes a struct fg_config; the bus then appears, and the kernel's
 * driver for this kind of chip probes. Each operation of the driver becomes a request that the process reads, and answers.
 *
 * When the process ends, each operation fails with EIO, and the bus is removed as soon as its MTD device is no longer open: the kernel does
 * not survive the removal of an open MTD device (before 6.6).
 */
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "bus.h"

#ifndef __LITTLE_ENDIAN
#error "the protocol of floatgate.h is little-endian"
#endif

/* A frame is a request with its largest body: instructions or an operation, then data. */
#define FG_FRAME_MAX (sizeof(struct fg_request) + FG_INSTR_MAX * sizeof(struct fg_nand_instr) + FG_DATA_MAX)
#define FG_NO_MTD U32_MAX

static unsigned int timeout_s = 30;
module_param(timeout_s, uint, 0644);
MODULE_PARM_DESC(timeout_s, "Seconds that the process has for an answer (30)");

static struct workqueue_struct *queue;
static LIST_HEAD(buses);
static DEFINE_MUTEX(buses_lock);

/* Requests */

struct fg_request *fg_begin(struct fg_bus *bus, u32 kind)
{
	struct fg_request *request = bus->frame;

	mutex_lock(&bus->turn);
	memset(request, 0, sizeof(*request));
	request->kind = kind;
	bus->frame_len = sizeof(*request);
	return request;
}

/* What does not fit is refused by fg_send(). */
void fg_put(struct fg_bus *bus, const void *data, size_t len)
{
	if (bus->frame_len <= FG_FRAME_MAX && len <= FG_FRAME_MAX - bus->frame_len) {
		memcpy(bus->frame + bus->frame_len, data, len);
		bus->frame_len += len;
	} else {
		bus->frame_len = FG_FRAME_MAX + 1;
	}
}

static int fg_wait(struct fg_bus *bus)
{
	long left = wait_for_completion_killable_timeout(&bus->answered, (unsigned long)timeout_s * HZ);
	int result;

	mutex_lock(&bus->lock);
	/* A late answer finds no request. */
	bus->state = FG_IDLE;
	if (left > 0)
		result = bus->result;
	else
		result = left ? left : -ETIMEDOUT;
	mutex_unlock(&bus->lock);
	return result;
}

/* Returns the result of the answer, whose `in_len` bytes are then in bus->reply. */
int fg_send(struct fg_bus *bus, size_t in_len)
{
	struct fg_request *request = bus->frame;

	if (bus->frame_len > FG_FRAME_MAX || in_len > FG_DATA_MAX)
		return -EMSGSIZE;
	mutex_lock(&bus->lock);
	if (bus->dead) {
		mutex_unlock(&bus->lock);
		return -EIO;
	}
	request->id = ++bus->last_id;
	request->in_len = in_len;
	bus->in_len = in_len;
	bus->state = FG_POSTED;
	reinit_completion(&bus->answered);
	mutex_unlock(&bus->lock);
	wake_up_interruptible(&bus->posted);
	return fg_wait(bus);
}

void fg_end(struct fg_bus *bus)
{
	mutex_unlock(&bus->turn);
}

/* The process learns which MTD device its chip is. */
static void fg_tell_ready(struct fg_bus *bus, u32 number)
{
	struct fg_request *request = fg_begin(bus, FG_READY);

	request->target = number;
	fg_send(bus, 0);
	fg_end(bus);
}

static void fg_ready(struct work_struct *work)
{
	struct fg_bus *bus = container_of(work, struct fg_bus, ready);

	fg_tell_ready(bus, READ_ONCE(bus->mtd_number));
}

/* The MTD device: counts who has it open */

static struct fg_bus *fg_bus_of(struct mtd_info *mtd)
{
	struct fg_bus *bus, *found = NULL;

	mutex_lock(&buses_lock);
	list_for_each_entry(bus, &buses, entry)
		if (bus->mtd == mtd)
			found = bus;
	mutex_unlock(&buses_lock);
	return found;
}

static int fg_get_device(struct mtd_info *mtd)
{
	struct fg_bus *bus = fg_bus_of(mtd);
	int err = 0;

	if (!bus)
		return -ENODEV;
	atomic_inc(&bus->opens);
	smp_mb__after_atomic(); /* fg_remove() sets `dead` and then reads `opens` */
	if (READ_ONCE(bus->dead))
		err = -ENODEV;
	else if (bus->get_device)
		err = bus->get_device(mtd);
	if (err)
		atomic_dec(&bus->opens);
	else
		__module_get(THIS_MODULE);
	return err;
}

/* Runs under the lock of the table of MTD devices, which the removal of this one takes, so this code is there until it has returned. */
static void fg_put_device(struct mtd_info *mtd)
{
	struct fg_bus *bus = fg_bus_of(mtd);

	if (!bus)
		return;
	if (bus->put_device)
		bus->put_device(mtd);
	atomic_dec(&bus->opens);
	module_put(THIS_MODULE);
}

static bool fg_is_below(struct device *dev, struct platform_device *ancestor)
{
	for (; dev; dev = dev->parent)
		if (ancestor && dev == &ancestor->dev)
			return true;
	return false;
}

static void fg_mtd_added(struct mtd_info *mtd)
{
	struct fg_bus *bus;

	if (mtd_is_partition(mtd))
		return;
	mutex_lock(&buses_lock);
	list_for_each_entry(bus, &buses, entry) {
		if (bus->mtd || !fg_is_below(mtd->dev.parent, bus->device))
			continue;
		bus->get_device = mtd->_get_device;
		bus->put_device = mtd->_put_device;
		mtd->_get_device = fg_get_device;
		mtd->_put_device = fg_put_device;
		bus->mtd = mtd;
		WRITE_ONCE(bus->mtd_number, mtd->index);
		queue_work(queue, &bus->ready);
	}
	mutex_unlock(&buses_lock);
}

static void fg_mtd_removed(struct mtd_info *mtd)
{
	struct fg_bus *bus = fg_bus_of(mtd);

	if (bus) {
		mtd->_get_device = bus->get_device;
		mtd->_put_device = bus->put_device;
		bus->mtd = NULL;
		WRITE_ONCE(bus->mtd_number, FG_NO_MTD);
	}
}

static struct mtd_notifier fg_notifier = {
	.add = fg_mtd_added,
	.remove = fg_mtd_removed,
};

/* The device on which controller and chip hang. Drivers of chips take a reference on the driver of a controller's parent. */

static int fg_platform_probe(struct platform_device *device)
{
	struct fg_bus *bus = *(struct fg_bus **)dev_get_platdata(&device->dev);

	/* The MTD device appears while this runs. */
	bus->device = device;
	if (bus->config.kind == FG_RAW_NAND)
		return fg_nand_probe(bus, &device->dev);
	return fg_spi_probe(bus, &device->dev);
}

static struct platform_driver fg_driver = {
	.probe = fg_platform_probe,
	.driver = { .name = "floatgate" },
};

/* Not in the process: the driver of the chip needs its answers. */
static void fg_probe(struct work_struct *work)
{
	struct fg_bus *bus = container_of(work, struct fg_bus, probe);
	struct platform_device *device;

	device = platform_device_register_data(NULL, "floatgate", PLATFORM_DEVID_AUTO, &bus, sizeof(bus));
	bus->device = IS_ERR(device) ? NULL : device;
	if (IS_ERR(device))
		pr_err("floatgate: no device: %ld\n", PTR_ERR(device));
	if (READ_ONCE(bus->mtd_number) == FG_NO_MTD)
		fg_tell_ready(bus, FG_NO_MTD);
}

static void fg_free(struct fg_bus *bus)
{
	platform_device_unregister(bus->device);
	cancel_work_sync(&bus->ready);
	mutex_lock(&buses_lock);
	list_del(&bus->entry);
	mutex_unlock(&buses_lock);
	kvfree(bus->frame);
	kvfree(bus->reply);
	kfree(bus);
}

static void fg_remove(struct work_struct *work)
{
	struct fg_bus *bus = container_of(to_delayed_work(work), struct fg_bus, removal);

	cancel_work_sync(&bus->probe);
	if (atomic_read(&bus->opens))
		queue_delayed_work(queue, &bus->removal, HZ / 5);
	else
		fg_free(bus);
}

/* The file */

static int fg_open(struct inode *inode, struct file *file)
{
	struct fg_bus *bus = kzalloc(sizeof(*bus), GFP_KERNEL);

	if (!bus)
		return -ENOMEM;
	bus->frame = kvmalloc(FG_FRAME_MAX, GFP_KERNEL);
	bus->reply = kvmalloc(FG_DATA_MAX, GFP_KERNEL);
	if (!bus->frame || !bus->reply) {
		kvfree(bus->frame);
		kvfree(bus->reply);
		kfree(bus);
		return -ENOMEM;
	}
	bus->mtd_number = FG_NO_MTD;
	mutex_init(&bus->turn);
	mutex_init(&bus->lock);
	init_waitqueue_head(&bus->posted);
	init_completion(&bus->answered);
	INIT_WORK(&bus->probe, fg_probe);
	INIT_WORK(&bus->ready, fg_ready);
	INIT_DELAYED_WORK(&bus->removal, fg_remove);
	mutex_lock(&buses_lock);
	list_add(&bus->entry, &buses);
	mutex_unlock(&buses_lock);
	file->private_data = bus;
	return stream_open(inode, file);
}

static int fg_release(struct inode *inode, struct file *file)
{
	struct fg_bus *bus = file->private_data;

	mutex_lock(&bus->lock);
	WRITE_ONCE(bus->dead, true);
	bus->result = -EIO;
	complete(&bus->answered);
	mutex_unlock(&bus->lock);
	smp_mb(); /* fg_get_device() counts and then reads `dead` */
	queue_delayed_work(queue, &bus->removal, 0);
	return 0;
}

static ssize_t fg_read(struct file *file, char __user *to, size_t count, loff_t *pos)
{
	struct fg_bus *bus = file->private_data;
	ssize_t done = 0;

	while (!done) {
		if (READ_ONCE(bus->state) != FG_POSTED) {
			if (file->f_flags & O_NONBLOCK)
				return -EAGAIN;
			if (wait_event_interruptible(bus->posted, READ_ONCE(bus->state) == FG_POSTED))
				return -ERESTARTSYS;
		}
		mutex_lock(&bus->lock);
		if (bus->state == FG_POSTED) {
			if (count < bus->frame_len)
				done = -EMSGSIZE;
			else if (copy_to_user(to, bus->frame, bus->frame_len))
				done = -EFAULT;
			else
				done = bus->frame_len;
			if (done > 0)
				bus->state = FG_TAKEN;
		}
		mutex_unlock(&bus->lock);
	}
	return done;
}

static ssize_t fg_configure(struct fg_bus *bus, const char __user *from, size_t count)
{
	struct fg_config config;

	if (count != sizeof(config))
		return -EINVAL;
	if (copy_from_user(&config, from, count))
		return -EFAULT;
	if (config.magic != FG_MAGIC)
		return -EPROTO;
	if (config.kind < FG_SPI_NOR || config.kind > FG_RAW_NAND || !config.clock_hz || !config.targets ||
	    config.targets > FG_TARGETS_MAX || !config.max_data || config.max_data > FG_DATA_MAX ||
	    !config.max_mapped || config.max_mapped > FG_DATA_MAX || config.ecc > FG_ECC_ON_DIE)
		return -EINVAL;
	bus->config = config;
	queue_work(queue, &bus->probe);
	return count;
}

static ssize_t fg_answer(struct fg_bus *bus, const char __user *from, size_t count)
{
	struct fg_answer answer;

	if (count < sizeof(answer))
		return -EINVAL;
	if (copy_from_user(&answer, from, sizeof(answer)))
		return -EFAULT;
	if (bus->state != FG_TAKEN || answer.id != bus->last_id)
		return -ESTALE;
	if (count - sizeof(answer) != (answer.result ? 0 : bus->in_len) || answer.result < -MAX_ERRNO)
		return -EINVAL;
	if (copy_from_user(bus->reply, from + sizeof(answer), count - sizeof(answer)))
		return -EFAULT;
	bus->result = answer.result;
	bus->state = FG_IDLE;
	complete(&bus->answered);
	return count;
}

static ssize_t fg_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	struct fg_bus *bus = file->private_data;
	ssize_t done;

	mutex_lock(&bus->lock);
	if (bus->config.magic)
		done = fg_answer(bus, from, count);
	else
		done = fg_configure(bus, from, count);
	mutex_unlock(&bus->lock);
	return done;
}

static __poll_t fg_poll(struct file *file, poll_table *table)
{
	struct fg_bus *bus = file->private_data;

	poll_wait(file, &bus->posted, table);
	return READ_ONCE(bus->state) == FG_POSTED ? EPOLLIN | EPOLLRDNORM : 0;
}

static const struct file_operations fg_file_operations = {
	.owner = THIS_MODULE,
	.open = fg_open,
	.release = fg_release,
	.read = fg_read,
	.write = fg_write,
	.poll = fg_poll,
};

static struct miscdevice fg_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "floatgate",
	.fops = &fg_file_operations,
	.mode = 0600,
};

static bool fg_is_empty(void)
{
	bool empty;

	mutex_lock(&buses_lock);
	empty = list_empty(&buses);
	mutex_unlock(&buses_lock);
	return empty;
}

static int __init fg_init(void)
{
	int err;

	queue = alloc_workqueue("floatgate", WQ_UNBOUND, 0);
	if (!queue)
		return -ENOMEM;
	err = platform_driver_register(&fg_driver);
	if (err)
		goto no_driver;
	register_mtd_user(&fg_notifier);
	err = misc_register(&fg_device);
	if (!err)
		return 0;
	unregister_mtd_user(&fg_notifier);
	platform_driver_unregister(&fg_driver);
no_driver:
	destroy_workqueue(queue);
	return err;
}

/* No file and no MTD device is open, as each holds the module: what is left of the buses removes itself. */
static void __exit fg_exit(void)
{
	misc_deregister(&fg_device);
	while (!fg_is_empty())
		msleep(20);
	destroy_workqueue(queue);
	unregister_mtd_user(&fg_notifier);
	platform_driver_unregister(&fg_driver);
}

module_init(fg_init);
module_exit(fg_exit);
MODULE_DESCRIPTION("A flash chip that a process simulates, under the kernel's own drivers");
MODULE_LICENSE("Dual MIT/GPL");
