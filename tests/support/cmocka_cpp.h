// SPDX-License-Identifier: Apache-2.0
// cmocka for C++ tests. Include it last: its macro `fail` collides with the stream classes.
#pragma once

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

extern "C" {
#include <cmocka.h>
}
