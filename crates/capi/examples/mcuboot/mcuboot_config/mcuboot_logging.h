/* With -DMCUBOOT_HAVE_LOGGING MCUboot tells what it does, which `floatgate powercut --replay` shows. */
#ifndef FLOATGATE_MCUBOOT_LOGGING_H
#define FLOATGATE_MCUBOOT_LOGGING_H

#include <stdio.h>

#define MCUBOOT_LOG_MODULE_DECLARE(module)
#define MCUBOOT_LOG_MODULE_REGISTER(module)
#define MCUBOOT_LOG_ERR(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))
#define MCUBOOT_LOG_WRN(...) MCUBOOT_LOG_ERR(__VA_ARGS__)
#define MCUBOOT_LOG_INF(...) MCUBOOT_LOG_ERR(__VA_ARGS__)
#define MCUBOOT_LOG_DBG(...) ((void)0)
#define MCUBOOT_LOG_SIM(...) ((void)0)

#endif
