/* Types that SPIFFS asks its project for. Its default configuration includes a file of this name. */
#ifndef FLOATGATE_SPIFFS_TYPES_H
#define FLOATGATE_SPIFFS_TYPES_H

#include <stdint.h>

typedef int32_t s32_t;
typedef uint32_t u32_t;
typedef int16_t s16_t;
typedef uint16_t u16_t;
typedef int8_t s8_t;
typedef uint8_t u8_t;

#endif
