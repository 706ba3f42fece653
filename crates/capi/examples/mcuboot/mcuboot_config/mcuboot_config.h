/* Images with a hash and no signature: what is tried is how slots are swapped. The way to swap (MCUBOOT_SWAP_USING_MOVE or
 * MCUBOOT_SWAP_USING_SCRATCH) is chosen on the compiler's command line. */
#ifndef FLOATGATE_MCUBOOT_CONFIG_H
#define FLOATGATE_MCUBOOT_CONFIG_H

#define MCUBOOT_USE_TINYCRYPT 1
#define MCUBOOT_VALIDATE_PRIMARY_SLOT 1
#define MCUBOOT_USE_FLASH_AREA_GET_SECTORS 1
#define MCUBOOT_MAX_IMG_SECTORS 16
#define MCUBOOT_IMAGE_NUMBER 1
#define MCUBOOT_BOOT_MAX_ALIGN 8
#define MCUBOOT_WATCHDOG_FEED() do { } while (0)
#define MCUBOOT_CPU_IDLE() do { } while (0)
#ifdef MCUBOOT_SWAP_USING_SCRATCH
#define MCUBOOT_SWAP_SCRATCH 1
#endif

#endif
