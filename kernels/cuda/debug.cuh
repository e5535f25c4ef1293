// Debug prints and checks of a kernel, there only with -DDEBUG_PRINT (`ncubble verify NAME --debug`).
//
// DEBUG_PRINT_ONCE(format, ...) prints from the first thread of the grid; DEBUG_CHECK(condition) ends the kernel
// where it does not hold, and names file, line, CTA and thread.
#pragma once

#ifdef DEBUG_PRINT
#include <cassert>
#include <cstdio>
#define DEBUG_PRINT_ONCE(...)                                                                          \
    do {                                                                                               \
        if (!(blockIdx.x | blockIdx.y | blockIdx.z | threadIdx.x | threadIdx.y | threadIdx.z)) printf(__VA_ARGS__); \
    } while (0)
#define DEBUG_CHECK(condition) assert(condition)
#else
#define DEBUG_PRINT_ONCE(...) static_cast<void>(0)
#define DEBUG_CHECK(condition) static_cast<void>(0)
#endif
