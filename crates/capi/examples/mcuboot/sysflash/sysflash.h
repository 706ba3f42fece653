/* One image in two slots, and a scratch area. */
#ifndef FLOATGATE_MCUBOOT_SYSFLASH_H
#define FLOATGATE_MCUBOOT_SYSFLASH_H

#define FLASH_AREA_IMAGE_PRIMARY(image) 0
#define FLASH_AREA_IMAGE_SECONDARY(image) 1
#define FLASH_AREA_IMAGE_SCRATCH 2
#define FLASH_SLOT_DOES_NOT_EXIST 255

#endif
