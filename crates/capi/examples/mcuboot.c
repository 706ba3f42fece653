/* MCUboot on a simulated SPI NOR, under power cuts. MCUboot itself is not part of floatgate:
 *
 *   git clone https://github.com/mcu-tools/mcuboot
 *   boot=mcuboot/boot/bootutil crypto=mcuboot/ext/tinycrypt/lib port=crates/capi/examples
 *   cc -shared -fPIC -DMCUBOOT_SWAP_USING_MOVE -I crates/capi/include -I $port/mcuboot -I $boot/include -I $boot/src -I $crypto/include \
 *      -o mcuboot.so $port/mcuboot.c $boot/src/{boot*,caps,fault_injection_hardening,image_validate,loader,swap_*,tlv}.c \
 *      $crypto/source/sha256.c $crypto/source/utils.c
 *   floatgate powercut w25q64jv --lib ./mcuboot.so --mode exhaustive
 *
 * With -DMCUBOOT_SWAP_USING_SCRATCH the slots are swapped by way of a scratch area.
 *
 * A device is updated again and again. A good application confirms itself. A bad one does not, and is reset by its watchdog, so that
 * MCUboot has to bring the old one back. What must hold: a whole image boots; a bad one does not stay; a good one that was confirmed is
 * not lost.
 */
#include <bootutil/bootutil.h>
#include <bootutil/bootutil_public.h>
#include <bootutil/image.h>
#include <bootutil/fault_injection_hardening.h>
#include <flash_map_backend/flash_map_backend.h>
#include <floatgate.h>
#include <stdio.h>
#include <string.h>
#include <sysflash/sysflash.h>
#include <tinycrypt/sha256.h>

/* Sectors of each area. Swapping by moves needs one more in the first slot, and takes the last one of each slot for a trailer. Otherwise an
 * image may end where the trailer begins, and the trailer is kept in the scratch area in between. */
#ifdef MCUBOOT_SWAP_USING_MOVE
enum { PRIMARY_SECTORS = 5, IMAGE_SECTORS = 3 };
#else
enum { PRIMARY_SECTORS = 4, IMAGE_SECTORS = 4 };
#endif
enum { SECONDARY_SECTORS = 4, SCRATCH_SECTORS = 2 };
enum { PRIMARY, SECONDARY, SCRATCH, AREAS };
enum { HEADER_BYTES = 32, CHUNK_BYTES = 256, BOOTS_MAX = 4 };

static fg_device *chip;
static uint32_t sector_bytes;
static struct flash_area areas[AREAS];
/* Version of the application that runs. */
static uint32_t running;

static int open_chip(fg_device *device) {
  static const uint32_t sectors[AREAS] = {PRIMARY_SECTORS, SECONDARY_SECTORS, SCRATCH_SECTORS};
  fg_geometry geometry;
  uint32_t offset = 0;
  chip = device;
  if (fg_mtd_geometry(device, &geometry) != FG_OK) return -1;
  sector_bytes = geometry.erase_bytes;
  for (uint8_t id = 0; id < AREAS; id++) {
    areas[id] = (struct flash_area){id, offset, sectors[id] * sector_bytes};
    offset += areas[id].fa_size;
  }
  return 0;
}

int flash_area_open(uint8_t id, const struct flash_area **area) {
  if (id >= AREAS) return -1;
  *area = &areas[id];
  return 0;
}

void flash_area_close(const struct flash_area *area) { (void)area; }

static int is_outside(const struct flash_area *area, uint32_t offset, uint32_t length) {
  return offset > area->fa_size || length > area->fa_size - offset;
}

int flash_area_read(const struct flash_area *area, uint32_t offset, void *bytes, uint32_t length) {
  if (is_outside(area, offset, length)) return -1;
  return fg_mtd_read(chip, area->fa_off + offset, (uint8_t *)bytes, length, NULL) == FG_OK ? 0 : -1;
}

int flash_area_write(const struct flash_area *area, uint32_t offset, const void *bytes, uint32_t length) {
  if (is_outside(area, offset, length)) return -1;
  return fg_mtd_write(chip, area->fa_off + offset, (const uint8_t *)bytes, length) == FG_OK ? 0 : -1;
}

int flash_area_erase(const struct flash_area *area, uint32_t offset, uint32_t length) {
  if (is_outside(area, offset, length)) return -1;
  return fg_mtd_erase(chip, area->fa_off + offset, length) == FG_OK ? 0 : -1;
}

uint32_t flash_area_align(const struct flash_area *area) {
  (void)area;
  return 1;
}

uint8_t flash_area_erased_val(const struct flash_area *area) {
  (void)area;
  return 0xFF;
}

int flash_area_get_sectors(int id, uint32_t *count, struct flash_sector *sectors) {
  if (id < 0 || id >= AREAS || *count < areas[id].fa_size / sector_bytes) return -1;
  *count = areas[id].fa_size / sector_bytes;
  for (uint32_t at = 0; at < *count; at++) sectors[at] = (struct flash_sector){at * sector_bytes, sector_bytes};
  return 0;
}

int flash_area_get_sector(const struct flash_area *area, uint32_t offset, struct flash_sector *sector) {
  if (offset >= area->fa_size) return -1;
  *sector = (struct flash_sector){offset / sector_bytes * sector_bytes, sector_bytes};
  return 0;
}

int flash_area_id_from_image_slot(int slot) { return slot; }

int flash_area_id_from_multi_image_slot(int image, int slot) {
  (void)image;
  return slot;
}

int flash_area_id_to_multi_image_slot(int image, int id) {
  (void)image;
  return id;
}

static const char *failure(const char *what, uint32_t number) {
  static char text[120];
  snprintf(text, sizeof text, "%s %u", what, (unsigned)number);
  return text;
}

/* Body of the image of a version, at an offset. */
static uint8_t body(uint32_t version, uint32_t offset) { return (uint8_t)(version * 89 + offset * 7 + offset / 251); }

/* Writes the image of a version to a slot, as an application that downloads it does. */
static const char *write_image(uint8_t id, uint32_t version) {
  static struct tc_sha256_state_struct hash;
  const struct flash_area *area = &areas[id];
  const uint32_t body_bytes = IMAGE_SECTORS * sector_bytes - 1000 - version % 5 * 300;
  const struct image_header header = {
      .ih_magic = IMAGE_MAGIC, .ih_hdr_size = HEADER_BYTES, .ih_img_size = body_bytes, .ih_ver = {.iv_build_num = version}};
  uint8_t chunk[CHUNK_BYTES];
  struct {
    struct image_tlv_info info;
    struct image_tlv tlv;
    uint8_t digest[TC_SHA256_DIGEST_SIZE];
  } tail = {.info = {.it_magic = IMAGE_TLV_INFO_MAGIC, .it_tlv_tot = sizeof tail},
            .tlv = {.it_type = IMAGE_TLV_SHA256, .it_len = TC_SHA256_DIGEST_SIZE}};

  tc_sha256_init(&hash);
  tc_sha256_update(&hash, (const uint8_t *)&header, sizeof header);
  if (flash_area_erase(area, 0, area->fa_size) || flash_area_write(area, 0, &header, sizeof header)) return "the download: a write failed";
  for (uint32_t at = 0; at < body_bytes; at += CHUNK_BYTES) {
    const uint32_t length = body_bytes - at < CHUNK_BYTES ? body_bytes - at : CHUNK_BYTES;
    for (uint32_t byte = 0; byte < length; byte++) chunk[byte] = body(version, at + byte);
    tc_sha256_update(&hash, chunk, length);
    if (flash_area_write(area, HEADER_BYTES + at, chunk, length)) return "the download: a write failed";
  }
  tc_sha256_final(tail.digest, &hash);
  return flash_area_write(area, HEADER_BYTES + body_bytes, &tail, sizeof tail) ? "the download: a write failed" : NULL;
}

/* A reset: MCUboot chooses the application that runs. */
static const char *boot(void) {
  struct boot_rsp response = {0};
  fih_ret result = FIH_FAILURE;
  FIH_CALL(boot_go, result, &response);
  if (FIH_NOT_EQ(result, FIH_SUCCESS)) return "no image boots";
  running = response.br_hdr->ih_ver.iv_build_num;
  for (uint32_t at = 0; at < response.br_hdr->ih_img_size; at++) {
    uint8_t byte = 0;
    if (flash_area_read(&areas[PRIMARY], HEADER_BYTES + at, &byte, 1) || byte != body(running, at)) return failure("the application is damaged at byte", at);
  }
  return NULL;
}

/* From now on this version may run. */
static void expect(fg_device *device, uint32_t version) { fg_expect_write(device, "application", (const uint8_t *)&version, sizeof version); }

static int is_bad(uint32_t version) { return version % 3 == 2; }

/* Resets until an application confirms itself: a bad one is reset by its watchdog. */
static const char *boot_until_confirmed(void) {
  for (int boots = 0; boots < BOOTS_MAX; boots++) {
    const char *wrong = boot();
    if (wrong) return wrong;
    if (!is_bad(running)) return boot_set_confirmed() ? "boot_set_confirmed failed" : NULL;
  }
  return failure("the application was never confirmed, and stays; version", running);
}

const char *floatgate_test_prepare(fg_device *device) {
  if (open_chip(device)) return "no geometry";
  for (uint8_t id = SECONDARY; id < AREAS; id++)
    if (flash_area_erase(&areas[id], 0, areas[id].fa_size)) return "an erase failed";
  expect(device, 0);
  fg_expect_synced(device, NULL);
  return write_image(PRIMARY, 0);
}

const char *floatgate_test_recover(fg_device *device) {
  if (open_chip(device)) return "no geometry";
  return boot_until_confirmed();
}

const char *floatgate_test_step(fg_device *device, uint32_t number) {
  const uint32_t version = number + 1;
  const int permanent = !is_bad(version) && number % 2;
  if (!is_bad(version)) expect(device, version);
  const char *wrong = write_image(SECONDARY, version);
  if (wrong) return wrong;
  if (boot_set_pending(permanent)) return "boot_set_pending failed";
  wrong = boot_until_confirmed();
  if (wrong) return wrong;
  if (!is_bad(version) && running != version) return failure("without a power cut the update boots version", running);
  fg_expect_synced(device, NULL);
  return NULL;
}

const char *floatgate_test_check(fg_device *device) {
  fg_expect_found(device, "application", (const uint8_t *)&running, sizeof running);
  return NULL;
}
