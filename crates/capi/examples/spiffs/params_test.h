/* Types that SPIFFS asks its project for. Its default configuration includes a file of this name. */
#ifndef FLOATGATE_SPIFFS_TYPES_H
#define FLOATGATE_SPIFFS_TYPES_H

#include <stdint.h>

/* SPIFFS else programs bits to 1 that are 0 already, and counts on it that they stay 0. A chip may take that for a program of a page that is not erased;
 * the simulated ones refuse it. */
#define SPIFFS_NO_BLIND_WRITES 1

typedef int32_t s32_t;
typedef uint32_t u32_t;
typedef int16_t s16_t;
typedef uint16_t u16_t;
typedef int8_t s8_t;
typedef uint8_t u8_t;

#endif
