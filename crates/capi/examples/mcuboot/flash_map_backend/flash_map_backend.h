/* The flash that MCUboot's bootutil sees: areas of sectors, which ../../mcuboot.c maps to the flash of a simulated chip. */
#ifndef FLOATGATE_MCUBOOT_FLASH_MAP_BACKEND_H
#define FLOATGATE_MCUBOOT_FLASH_MAP_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flash_area {
  uint8_t fa_id;
  uint32_t fa_off; /* of the device's flash, in bytes */
  uint32_t fa_size;
};

struct flash_sector {
  uint32_t offset; /* of its area */
  uint32_t size;
};

int flash_area_open(uint8_t id, const struct flash_area **area);
void flash_area_close(const struct flash_area *area);
int flash_area_read(const struct flash_area *area, uint32_t offset, void *bytes, uint32_t length);
int flash_area_write(const struct flash_area *area, uint32_t offset, const void *bytes, uint32_t length);
int flash_area_erase(const struct flash_area *area, uint32_t offset, uint32_t length);
uint32_t flash_area_align(const struct flash_area *area);
uint8_t flash_area_erased_val(const struct flash_area *area);
int flash_area_get_sectors(int id, uint32_t *count, struct flash_sector *sectors);
int flash_area_get_sector(const struct flash_area *area, uint32_t offset, struct flash_sector *sector);
int flash_area_id_from_image_slot(int slot);
int flash_area_id_from_multi_image_slot(int image, int slot);
int flash_area_id_to_multi_image_slot(int image, int id);

static inline uint8_t flash_area_get_id(const struct flash_area *area) { return area->fa_id; }
static inline uint8_t flash_area_get_device_id(const struct flash_area *area) { (void)area; return 0; }
static inline uint32_t flash_area_get_off(const struct flash_area *area) { return area->fa_off; }
static inline uint32_t flash_area_get_size(const struct flash_area *area) { return area->fa_size; }
static inline uint32_t flash_sector_get_off(const struct flash_sector *sector) { return sector->offset; }
static inline uint32_t flash_sector_get_size(const struct flash_sector *sector) { return sector->size; }

#endif
