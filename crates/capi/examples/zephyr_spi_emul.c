/* A simulated SPI NOR or SPI NAND behind Zephyr's SPI emulation (native_sim): Zephyr's own drivers spi_nor and spi_nand drive it unchanged.
 *
 * Take this file into the application and link the library:
 *   target_sources(app PRIVATE zephyr_spi_emul.c)
 *   find_package(floatgate REQUIRED)
 *   target_link_libraries(app PRIVATE floatgate::floatgate)
 * with CONFIG_EMUL=y, CONFIG_SPI_EMUL=y, and the chip below an emulated controller in the devicetree:
 *   &spi0 { flash0: flash@0 { compatible = "jedec,spi-nor", "floatgate,chip"; reg = <0>; spi-max-frequency = <20000000>; ... }; };
 * CONFIG_FLOATGATE_CHIP is the name of the chip; FLOATGATE_CHIP in the environment replaces it.
 */
#include <floatgate.h>
#include <stdlib.h>
#include <zephyr/device.h>
#include <zephyr/drivers/emul.h>
#include <zephyr/drivers/spi.h>
#include <zephyr/drivers/spi_emul.h>
#include <zephyr/kernel.h>

#define DT_DRV_COMPAT floatgate_chip

#ifndef CONFIG_FLOATGATE_CHIP
#define CONFIG_FLOATGATE_CHIP "w25q64jv"
#endif

struct floatgate_data {
  fg_device *chip;
  uint32_t clock_hz;
  uint64_t uptime_ns; /* of Zephyr, at the last transfer */
};

/* A position in a set of buffers. A buffer without memory is clocked, too. */
struct position {
  const struct spi_buf_set *set;
  size_t buffer, offset;
};

/* Bytes up to the end of a buffer; 0 at the end of the set. */
static size_t left(struct position *at) {
  while (at->set != NULL && at->buffer < at->set->count && at->offset == at->set->buffers[at->buffer].len) {
    at->buffer++;
    at->offset = 0;
  }
  return at->set == NULL || at->buffer >= at->set->count ? 0 : at->set->buffers[at->buffer].len - at->offset;
}

static uint8_t *bytes_at(const struct position *at, size_t length) {
  if (length == 0 || at->set->buffers[at->buffer].buf == NULL) return NULL;
  return (uint8_t *)at->set->buffers[at->buffer].buf + at->offset;
}

/* Clocks both sets at once; the longer one goes on alone. */
static fg_status transfer(fg_device *chip, const struct spi_buf_set *sent, const struct spi_buf_set *received) {
  struct position from = {.set = sent}, to = {.set = received};
  for (;;) {
    size_t tx = left(&from), rx = left(&to), length = tx == 0 ? rx : rx == 0 ? tx : tx < rx ? tx : rx;
    if (length == 0) return FG_OK;
    uint8_t *out = bytes_at(&from, tx), *in = bytes_at(&to, rx);
    uint8_t ignored[64];
    if (out == NULL && in == NULL) {
      if (length > sizeof ignored) length = sizeof ignored;
      in = ignored;
    }
    const fg_status status = fg_spi_transfer(chip, 1, FG_HOLD, out, in, length);
    if (status != FG_OK) return status;
    if (tx > 0) from.offset += length;
    if (rx > 0) to.offset += length;
  }
}

/* The chip's time goes on with Zephyr's, which moves when threads sleep. */
static void pass_time(struct floatgate_data *data) {
  const uint64_t now = k_ticks_to_ns_floor64(k_uptime_ticks());
  if (now > data->uptime_ns) fg_advance(data->chip, now - data->uptime_ns);
  data->uptime_ns = now;
}

static int floatgate_io(const struct emul *target, const struct spi_config *config, const struct spi_buf_set *sent,
                        const struct spi_buf_set *received) {
  struct floatgate_data *data = target->data;
  pass_time(data);
  if (config->frequency != 0 && config->frequency != data->clock_hz) {
    data->clock_hz = config->frequency;
    fg_spi_clock(data->chip, data->clock_hz);
  }
  const fg_status status = transfer(data->chip, sent, received);
  if (!(config->operation & SPI_HOLD_ON_CS)) fg_spi_deselect(data->chip);
  return status == FG_OK ? 0 : -EIO;
}

/* The chip itself, for tests that cut power, invert bits, or ask for violations. */
fg_device *floatgate_chip(const struct emul *target) { return ((struct floatgate_data *)target->data)->chip; }

static int floatgate_init(const struct emul *target, const struct device *parent) {
  struct floatgate_data *data = target->data;
  const char *name = getenv("FLOATGATE_CHIP");
  char why[200];
  (void)parent;
  if (fg_open(name != NULL ? name : CONFIG_FLOATGATE_CHIP, NULL, 0, FG_PINS, &data->chip, why, sizeof why) == FG_OK) return 0;
  printk("floatgate: %s\n", why);
  return -ENODEV;
}

static struct spi_emul_api floatgate_api = {.io = floatgate_io};

#define FLOATGATE_EMUL(n)                           \
  static struct floatgate_data floatgate_data_##n;  \
  EMUL_DT_INST_DEFINE(n, floatgate_init, &floatgate_data_##n, NULL, &floatgate_api, NULL)

DT_INST_FOREACH_STATUS_OKAY(FLOATGATE_EMUL)
